#include "tests/client/library/plain_decode.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr int64_t kPlainHeads = 2;
constexpr int64_t kPlainDim = 2;
constexpr int64_t kPlainValueDim = 3;
// Prime, so that rows do not repeat soon.
constexpr int64_t kNumbers = 61;

HostTensor Numbered(int64_t heads, int64_t tokens, int64_t dim, bool bshd,
                    int64_t& next) {
  HostTensor tensor(DType::kF32, bshd ? Shape{1, tokens, heads, dim}
                                      : Shape{1, heads, tokens, dim});
  for (float& value : tensor.values<float>()) {
    value = static_cast<float>(1 + next++ % kNumbers);
  }
  return tensor;
}

TensorView ByHead(const HostTensor& tensor, bool bshd) {
  return bshd ? tensor.view().SwapAxes(1, 2) : tensor.view();
}

bool SameBits(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.byte_count()) == 0;
}

struct PlainRowsOfStep {
  HostTensor q;
  HostTensor k;
  HostTensor v;
};

}  // namespace

NewSession PlainSession(int layers) {
  NewSession session;
  session.layers = layers;
  session.q_heads = kPlainHeads;
  session.kv_heads = 1;
  session.q_dim = kPlainDim;
  session.v_dim = kPlainValueDim;
  return session;
}

absl::Status PlainDecode::Step(RemoteSession& session,
                               const std::vector<int>& layers, int64_t tokens,
                               bool bshd, const CallOptions& call) {
  int64_t number = next_number_;
  std::vector<PlainRowsOfStep> rows;
  std::vector<StepTensors> step;
  for (size_t i = 0; i < layers.size(); ++i) {
    rows.push_back({Numbered(kPlainHeads, tokens, kPlainDim, bshd, number),
                    Numbered(1, tokens, kPlainDim, bshd, number),
                    Numbered(1, tokens, kPlainValueDim, bshd, number)});
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    step.push_back({.layer = layers[i],
                    .q = ByHead(rows[i].q, bshd),
                    .k = ByHead(rows[i].k, bshd),
                    .v = ByHead(rows[i].v, bshd),
                    .bshd = bshd});
  }
  const auto outputs = session.Step(step, call);
  if (!outputs.ok()) return outputs.status();
  next_number_ = number;
  for (size_t i = 0; i < layers.size(); ++i) {
    PlainCache& cache = caches_[static_cast<size_t>(layers[i])];
    cache.k.Append(rows[i].k, bshd);
    cache.v.Append(rows[i].v, bshd);
    if (SameBits((*outputs)[i], PlainSight(rows[i].q, bshd, cache))) continue;
    return absl::InternalError(absl::StrCat("layer ", layers[i], " of ",
                                            cache.k.tokens(),
                                            " tokens sees something else"));
  }
  return absl::OkStatus();
}

void PlainDecode::Rollback(int64_t position) {
  for (PlainCache& cache : caches_) cache.Truncate(position);
}

}  // namespace attn
