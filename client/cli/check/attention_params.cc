#include "client/cli/check/attention_params.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/normalizer_params.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/quantized_kv.h"
#include "client/cli/check/score_params.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

// Reads tested.params[name], which is there and not null.
using Apply = absl::Status (*)(const Case& tested, const json& value,
                               ServiceCall& call);

absl::Status Ignore(const Case& /*tested*/, const json& /*value*/,
                    ServiceCall& /*call*/) {
  return absl::OkStatus();
}

absl::Status ApplySoftcap(const Case& /*tested*/, const json& softcap,
                          ServiceCall& call) {
  const auto cap = NumberFromJson(softcap);
  if (!cap.ok()) return cap.status();
  if (*cap != 0) call.spec.softcap = *cap;
  return absl::OkStatus();
}

absl::Status ApplyTemperature(const Case& /*tested*/, const json& temperature,
                              ServiceCall& call) {
  const auto value = NumberFromJson(temperature);
  if (!value.ok()) return value.status();
  call.spec.temperatures = {*value};
  return absl::OkStatus();
}

absl::Status ApplyKvLens(const Case& /*tested*/, const json& lengths,
                         ServiceCall& call) {
  auto integers = Integers(lengths);
  if (!integers.ok()) return integers.status();
  call.kv_lengths = *std::move(integers);
  return absl::OkStatus();
}

absl::Status AddT5(const Case& tested, const json& bias, ServiceCall& call) {
  const HostTensor* table = tested.Input("table");
  if (table == nullptr) return Skip("a T5 bias without its table");
  T5Bias t5;
  t5.table = call.AddNamed("table", *table);
  t5.bidirectional = bias.value("bidirectional", true);
  t5.max_distance = bias.value("max_distance", t5.max_distance);
  call.spec.biases.emplace_back(t5);
  return absl::OkStatus();
}

// Dense biases come as the input `bias`; here they are only words.
absl::Status ApplyBias(const Case& tested, const json& bias,
                       ServiceCall& call) {
  const json kind = bias.is_object() ? bias.value("kind", json()) : bias;
  const std::string name = kind.is_string() ? kind.get<std::string>() : "?";
  if (name == "alibi") {
    call.spec.biases.emplace_back(AlibiBias{});
    return absl::OkStatus();
  }
  if (name == "t5") return AddT5(tested, bias, call);
  if (absl::StartsWith(name, "dense")) return absl::OkStatus();
  return Skip(absl::StrCat("bias ", name));
}

absl::Status ApplyStorage(const Case& /*tested*/, const json& storage,
                          ServiceCall& call) {
  if (storage == "bfloat16") {
    call.storage = DType::kBF16;
  } else if (storage == "float16") {
    call.storage = DType::kF16;
  } else {
    return Skip(absl::StrCat("storage ", storage.dump()));
  }
  return absl::OkStatus();
}

absl::Status ApplyQkNorm(const Case& tested, const json& norm,
                         ServiceCall& call) {
  NormTransform transform;
  const json kind = norm.value("kind", json());
  if (kind != "l2" && kind != "rms") {
    return Skip(absl::StrCat("qk_norm ", kind.dump()));
  }
  transform.kind = kind == "l2" ? NormKind::kL2 : NormKind::kRms;
  const auto eps = NumberFromJson(norm.value("eps", json(transform.eps)));
  if (!eps.ok()) return eps.status();
  transform.eps = *eps;
  if (const HostTensor* gain = tested.Input("q_gain"); gain != nullptr) {
    transform.query_weight = call.AddInput(HostTensor::Copy(gain->view()));
  }
  if (const HostTensor* gain = tested.Input("k_gain"); gain != nullptr) {
    transform.key_weight = call.AddInput(HostTensor::Copy(gain->view()));
  }
  call.spec.transforms.emplace_back(transform);
  return absl::OkStatus();
}

absl::Status ApplySparsityParam(const Case& tested, const json& /*value*/,
                                ServiceCall& call) {
  return ApplySparsity(tested, TieRule::kLowestIndex, call);
}

absl::Status ApplyDropoutParam(const Case& tested, const json& /*value*/,
                               ServiceCall& call) {
  return ApplyDropout(tested, call);
}

struct ParamRow {
  const char* name;
  Apply apply;
};

// In order: kv_lens moves the diagonals of masks.
constexpr ParamRow kParams[] = {
    {"softcap", ApplySoftcap},
    {"temperature", ApplyTemperature},
    {"bias", ApplyBias},
    {"storage", ApplyStorage},
    {"sparsity", ApplySparsityParam},
    {"dropout", ApplyDropoutParam},
    {"qk_norm", ApplyQkNorm},
    {"kv_quant", ApplyKvQuantization},
    {"kv_lens", ApplyKvLens},
    {"mask", ApplyMask},
    // Read by name elsewhere.
    {"score", Ignore},
    {"normalizer", Ignore},
    {"sink", Ignore},
    {"output", Ignore},
    // Words, or what the shapes say already.
    {"layout", Ignore},
    {"heads", Ignore},
    {"gqa_mapping", Ignore},
    {"order", Ignore},
    {"note", Ignore},
    {"reason", Ignore},
    {"q_lens_note", Ignore},
    {"fully_masked", Ignore},
    {"d_k", Ignore},
    {"d_v", Ignore},
    {"Sq", Ignore},
    {"Sk", Ignore},
    {"H", Ignore},
};

}  // namespace

absl::Status ApplyParams(const Case& tested, ServiceCall& call) {
  const json& params = tested.params;
  absl::Status status = ApplyScore(tested, call);
  if (status.ok()) status = ApplyNormalizer(tested, call);
  if (!status.ok()) return status;
  std::set<std::string> known;
  for (const ParamRow& row : kParams) {
    known.insert(row.name);
    if (!params.contains(row.name) || params[row.name].is_null()) continue;
    status = row.apply(tested, params[row.name], call);
    if (!status.ok()) return status;
  }
  for (const auto& [key, value] : params.items()) {
    if (!known.contains(key) && !value.is_null()) {
      return Skip(absl::StrCat("parameter ", key));
    }
  }
  return absl::OkStatus();
}

}  // namespace attn
