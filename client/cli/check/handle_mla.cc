// Multi-head latent attention (DeepSeek-V2, section 2.1): the client makes q, k
// and v from the latent rows; the service turns the positions and attends.
#include <cmath>
#include <string>
#include <utility>

#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

struct Widths {
  int64_t heads = 0;
  int64_t rank = 0;     // of the latent keys and values
  int64_t turning = 0;  // with positions
  int64_t plain = 0;    // without
  int64_t value = 0;
};

absl::StatusOr<Widths> ReadWidths(const json& params) {
  const json config = params.value("config", json::object());
  Widths widths;
  const struct {
    const char* key;
    int64_t* target;
  } kFields[] = {{"num_attention_heads", &widths.heads},
                 {"kv_lora_rank", &widths.rank},
                 {"qk_rope_head_dim", &widths.turning},
                 {"qk_nope_head_dim", &widths.plain},
                 {"v_head_dim", &widths.value}};
  for (const auto& field : kFields) {
    *field.target = config.value(field.key, int64_t{0});
    if (*field.target <= 0) return Skip("a module without its widths");
  }
  return widths;
}

// x / sqrt(mean(x^2) + eps) * gain for each row.
HostTensor RmsNorm(const HostTensor& x, const HostTensor& gain, double eps) {
  const int64_t width = gain.element_count();
  HostTensor result(DType::kF64, x.shape());
  for (int64_t row = 0; row < x.element_count(); row += width) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      squares += x.At(row + i) * x.At(row + i);
    }
    const double norm = std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) {
      result.Set(row + i, x.At(row + i) / norm * gain.At(i));
    }
  }
  return result;
}

// Elements [from, to) of the last axis.
HostTensor Columns(const HostTensor& tensor, int64_t from, int64_t to) {
  return Slice(tensor, tensor.shape().rank() - 1, from, to);
}

// [B, S, D] for every head: [B, H, S, D].
HostTensor ForHeads(const HostTensor& tensor, int64_t heads) {
  const Shape& shape = tensor.shape();
  const int64_t plane = shape[1] * shape[2];
  HostTensor result(DType::kF64, Shape{shape[0], heads, shape[1], shape[2]});
  for (int64_t i = 0; i < result.element_count(); ++i) {
    result.Set(i, tensor.At(i / (plane * heads) * plane + i % plane));
  }
  return result;
}

class Module {
 public:
  Module(const Case& tested, const Widths& widths, double eps)
      : tested_(tested), widths_(widths), eps_(eps) {}

  // Puts the turning part first, where the service's rotation is; the order of
  // features does not change a product.
  absl::Status Fill(ServiceCall& call) const {
    const int64_t turning = widths_.turning;
    const int64_t plain = widths_.plain;
    auto low = Through(*tested_.Input("x"), "q_a_proj_weight");
    if (low.ok()) low = Normed(*low, "q_a_layernorm_weight");
    if (low.ok()) low = Through(*low, "q_b_proj_weight");
    auto q = low.ok() ? SplitHeads(*low, widths_.heads) : low.status();
    if (!q.ok()) return q.status();
    q = Concat(Columns(*q, plain, plain + turning), Columns(*q, 0, plain), 3);
    auto latent = Through(*tested_.Input("x"), "kv_a_proj_with_mqa_weight");
    if (!latent.ok()) return latent.status();
    const HostTensor shared =
        Columns(*latent, widths_.rank, widths_.rank + turning);
    auto high =
        Normed(Columns(*latent, 0, widths_.rank), "kv_a_layernorm_weight");
    if (high.ok()) high = Through(*high, "kv_b_proj_weight");
    const auto kv =
        high.ok() ? SplitHeads(*high, widths_.heads) : high.status();
    if (!kv.ok()) return kv.status();
    auto k = Concat(ForHeads(shared, widths_.heads), Columns(*kv, 0, plain), 3);
    if (!q.ok()) return q.status();
    if (!k.ok()) return k.status();
    call.q = *std::move(q);
    call.k = *std::move(k);
    call.v = Columns(*kv, plain, plain + widths_.value);
    return absl::OkStatus();
  }

  absl::StatusOr<HostTensor> Through(const HostTensor& x,
                                     const char* weight) const {
    const HostTensor* found = tested_.Input(weight);
    if (found == nullptr) return Skip("a module without its projections");
    return Project(x, *found, nullptr);
  }

 private:
  absl::StatusOr<HostTensor> Normed(const HostTensor& x,
                                    const char* gain) const {
    const HostTensor* found = tested_.Input(gain);
    if (found == nullptr) return Skip("a module without its norms");
    return RmsNorm(x, *found, eps_);
  }

  const Case& tested_;
  const Widths& widths_;
  double eps_;
};

}  // namespace

absl::StatusOr<Outcome> HandleLatent(const Case& tested,
                                     const Service& service) {
  const json& params = tested.params;
  const auto widths = ReadWidths(params);
  if (!widths.ok()) return widths.status();
  const auto eps = NumberFromJson(params.value("rms_eps", json()));
  if (!eps.ok()) return eps.status();
  const auto scale = NumberFromJson(params.value("scale", json()));
  if (!scale.ok()) return scale.status();
  if (!tested.HasInput("x")) return Skip("a module without x");
  const Module module(tested, *widths, *eps);
  ServiceCall call;
  absl::Status status = module.Fill(call);
  if (!status.ok()) return status;
  RotaryTransform rotary;
  const json rope = params.value("rope", json::object());
  // What the module does to interleaved pairs leaves their products alone.
  rotary.layout = rope.value("interleave", false) ? RotaryLayout::kInterleaved
                                                  : RotaryLayout::kHalfSplit;
  rotary.base = rope.value("base", rotary.base);
  rotary.rotary_dim = widths->turning;
  call.spec.transforms.emplace_back(rotary);
  call.spec.score = DotScore{.scale = *scale, .learned_scale = std::nullopt};
  status = ApplyMask(tested, params.value("mask", json()), call);
  if (!status.ok()) return status;
  auto outputs = service.Attend(call, {"output", "weights"});
  if (!outputs.ok()) return outputs.status();
  auto out = module.Through(JoinHeads(outputs->at("output")), "o_proj_weight");
  if (!out.ok()) return out.status();
  Outcome outcome;
  outcome.got["out"] = *std::move(out);
  outcome.got["weights"] = std::move(outputs->at("weights"));
  return outcome;
}

}  // namespace attn
