// Multi-head latent attention (DeepSeek-V2, section 2.1), from token rows to
// token rows.
#include <string>
#include <utility>

#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
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

// A tensor of the case as an input of the call.
absl::StatusOr<uint32_t> AddInput(const Case& tested, const char* name,
                                  ServiceCall& call) {
  const HostTensor* found = tested.Input(name);
  if (found == nullptr) return Skip("a module without its projections");
  return call.AddInput(HostTensor::Copy(found->view()));
}

// The module's own layers, none of which has a bias.
absl::Status AddLayers(const Case& tested, ServiceCall& call) {
  ProjectionSpec& spec = *call.spec.projections;
  LatentProjection& latent = *spec.latent;
  const struct {
    const char* name;
    uint32_t* input;
  } kInputs[] = {{"q_a_proj_weight", &latent.query_down.emplace().weight},
                 {"q_a_layernorm_weight", &latent.query_norm.emplace()},
                 {"q_b_proj_weight", &latent.query_up.weight},
                 {"kv_a_proj_with_mqa_weight", &latent.kv_down.weight},
                 {"kv_a_layernorm_weight", &latent.kv_norm.emplace()},
                 {"kv_b_proj_weight", &latent.kv_up.weight},
                 {"o_proj_weight", &spec.output.emplace().weight}};
  for (const auto& row : kInputs) {
    const auto input = AddInput(tested, row.name, call);
    if (!input.ok()) return input.status();
    *row.input = *input;
  }
  return absl::OkStatus();
}

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
  ServiceCall call;
  call.q = HostTensor::Copy(tested.Input("x")->view());
  call.k = HostTensor::Copy(tested.Input("x")->view());
  ProjectionSpec& spec = call.spec.projections.emplace();
  spec.q_heads = widths->heads;
  spec.latent.emplace().plain_dim = widths->plain;
  spec.latent->eps = *eps;
  absl::Status status = AddLayers(tested, call);
  if (!status.ok()) return status;
  RotaryTransform& rotary = spec.latent->rotary;
  const json rope = params.value("rope", json::object());
  // What the module does to interleaved pairs leaves their products alone.
  rotary.layout = rope.value("interleave", false) ? RotaryLayout::kInterleaved
                                                  : RotaryLayout::kHalfSplit;
  rotary.base = rope.value("base", rotary.base);
  rotary.rotary_dim = widths->turning;
  call.spec.score = DotScore{.scale = *scale, .learned_scale = std::nullopt};
  status = ApplyMask(tested, params.value("mask", json()), call);
  if (!status.ok()) return status;
  auto outputs = service.Attend(call, {"output", "weights"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  outcome.got["out"] = std::move(outputs->at("output"));
  outcome.got["weights"] = std::move(outputs->at("weights"));
  return outcome;
}

}  // namespace attn
