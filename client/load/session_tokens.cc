#include "client/load/session_tokens.h"

#include <algorithm>
#include <utility>

namespace attn {
namespace {

// Rows [begin, begin + count) of [1, H, n, D].
TensorView SomeRows(const HostTensor& tensor, int64_t begin, int64_t count) {
  TensorView rows = tensor.view();
  const int64_t width = rows.shape[3];
  const auto element_bytes = static_cast<int64_t>(tensor.byte_count()) /
                             std::max<int64_t>(1, tensor.element_count());
  rows.data += begin * width * element_bytes;
  rows.shape = Shape{rows.shape[0], rows.shape[1], count, width};
  return rows;
}

// A call of `tokens` queries over as many keys.
CallProfile OfTokens(const CallProfile& profile, int64_t tokens) {
  CallProfile call = profile;
  call.shape.q_length = tokens;
  call.shape.kv_length = tokens;
  return call;
}

}  // namespace

absl::StatusOr<SessionTokens> SessionTokens::Draw(const CallProfile& profile,
                                                  int payloads) {
  SessionTokens tokens(profile);
  auto decoded =
      MakePayloads(OfTokens(profile, profile.shape.q_length), payloads);
  if (!decoded.ok()) return decoded.status();
  tokens.decoded_ = *std::move(decoded);
  tokens.chunk_ = std::min(profile.sessions.chunk, profile.shape.kv_length);
  CallProfile call = OfTokens(profile, tokens.chunk_);
  // Other tokens than those of the steps.
  ++call.seed;
  auto first = MakePayloads(call, 1);
  if (!first.ok()) return first.status();
  tokens.first_ = *std::move(first);
  return tokens;
}

int64_t SessionTokens::CountOfFirst(int64_t position, int64_t end) const {
  return std::min(chunk_ - position % chunk_, end - position);
}

std::vector<StepTensors> SessionTokens::First(int64_t position,
                                              int64_t end) const {
  const LoadPayload& payload = first_.front();
  const int64_t begin = position % chunk_;
  const int64_t count = CountOfFirst(position, end);
  std::vector<StepTensors> tensors;
  for (int layer = 0; layer < profile_.sessions.layers; ++layer) {
    tensors.push_back({.layer = layer,
                       .q = SomeRows(payload.q, begin, count),
                       .k = SomeRows(payload.k, begin, count),
                       .v = SomeRows(payload.v, begin, count)});
  }
  return tensors;
}

std::vector<StepTensors> SessionTokens::Decoded(int64_t position) const {
  const auto turn = static_cast<size_t>(TurnOf(position));
  std::vector<StepTensors> tensors;
  for (int layer = 0; layer < profile_.sessions.layers; ++layer) {
    const LoadPayload& payload =
        decoded_[(turn + static_cast<size_t>(layer)) % decoded_.size()];
    tensors.push_back({.layer = layer,
                       .q = payload.q.view(),
                       .k = payload.k.view(),
                       .v = payload.v.view()});
  }
  return tensors;
}

int64_t SessionTokens::TurnOf(int64_t position) const {
  return (position - profile_.shape.kv_length) / profile_.shape.q_length;
}

}  // namespace attn
