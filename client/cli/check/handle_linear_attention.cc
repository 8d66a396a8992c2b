// ONNX LinearAttention, opset 27.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

constexpr const char* kLinearAttributes[] = {
    "q_num_heads", "kv_num_heads", "update_rule", "scale", "chunk_size"};

struct RuleRow {
  const char* name;
  UpdateRule rule;
};

constexpr RuleRow kRules[] = {{"linear", UpdateRule::kLinear},
                              {"gated", UpdateRule::kGated},
                              {"delta", UpdateRule::kDelta},
                              {"gated_delta", UpdateRule::kGatedDelta}};

absl::StatusOr<UpdateRule> RuleOf(const json& attributes) {
  const std::string name = attributes.value("update_rule", "gated_delta");
  for (const RuleRow& row : kRules) {
    if (name == row.name) return row.rule;
  }
  return Skip(absl::StrCat("update rule ", name));
}

absl::Status ReadLinearTensors(const Case& tested, const json& attributes,
                               ServiceCall& call) {
  const struct {
    const char* name;
    const char* heads;
    HostTensor* target;
  } tensors[] = {{"query", "q_num_heads", &call.q},
                 {"key", "kv_num_heads", &call.k},
                 {"value", "kv_num_heads", &call.v}};
  for (const auto& row : tensors) {
    const HostTensor* packed = tested.Input(row.name);
    if (packed == nullptr)
      return Skip(absl::StrCat("a case without ", row.name));
    auto split = SplitHeads(*packed, attributes.value(row.heads, int64_t{0}));
    if (!split.ok()) return split.status();
    *row.target = *std::move(split);
  }
  return absl::OkStatus();
}

std::optional<uint32_t> Add(const Case& tested, const char* name,
                            ServiceCall& call) {
  const HostTensor* input = tested.Input(name);
  if (input == nullptr) return std::nullopt;
  return call.AddInput(HostTensor::Copy(input->view()));
}

absl::StatusOr<ServiceCall> MakeLinearCall(const Case& tested) {
  const json attributes = tested.params.value("attributes", json::object());
  for (const auto& [name, value] : attributes.items()) {
    if (std::find(std::begin(kLinearAttributes), std::end(kLinearAttributes),
                  name) == std::end(kLinearAttributes)) {
      return Skip(absl::StrCat("attribute ", name));
    }
  }
  ServiceCall call;
  absl::Status status = ReadLinearTensors(tested, attributes, call);
  if (!status.ok()) return status;
  const auto rule = RuleOf(attributes);
  if (!rule.ok()) return rule.status();
  LinearNormalizer linear;
  linear.feature_map = FeatureMap::kIdentity;
  linear.update_rule = *rule;
  linear.normalize = false;
  linear.decay = Add(tested, "decay", call);
  linear.beta = Add(tested, "beta", call);
  linear.state = Add(tested, "past_state", call);
  call.spec.normalizer = linear;
  // 0 stands for the default.
  const double scale = attributes.value("scale", 0.0);
  if (scale != 0) {
    call.spec.score = DotScore{.scale = scale, .learned_scale = std::nullopt};
  }
  const json types = tested.params.value("onnx_dtypes", json::object());
  if (types.value("query", "") == "float16") call.storage = DType::kF16;
  return call;
}

}  // namespace

absl::StatusOr<Outcome> HandleOnnxLinearAttention(const Case& tested,
                                                  const Service& service) {
  const auto call = MakeLinearCall(tested);
  if (!call.ok()) return call.status();
  auto outputs = service.Attend(*call, {"output", "state"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  outcome.got["output"] = JoinHeads(outputs->at("output"));
  outcome.got["present_state"] = std::move(outputs->at("state"));
  return outcome;
}

}  // namespace attn
