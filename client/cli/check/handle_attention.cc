// Cases that give q, k and v.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

constexpr double kLn2 = 0.693147180559945309417;

// ------------------------------------------------------------- parameters

absl::Status Ignore(const json& /*value*/, ServiceCall& /*call*/) {
  return absl::OkStatus();
}

absl::Status ApplyScore(const json& score, ServiceCall& call) {
  const std::string kind = score.value("kind", "scaled_dot");
  if (kind != "scaled_dot" && kind != "dot") {
    return Skip(absl::StrCat("score ", kind));
  }
  DotScore dot;
  if (kind == "dot") dot.scale = 1;
  if (score.contains("scale")) {
    const auto scale = NumberFromJson(score["scale"]);
    if (!scale.ok()) return scale.status();
    dot.scale = *scale;
  }
  call.spec.score = dot;
  return absl::OkStatus();
}

absl::Status ApplyNormalizer(const json& normalizer, ServiceCall& /*call*/) {
  const std::string kind = normalizer.value("kind", "softmax");
  if (kind != "softmax") return Skip(absl::StrCat("normalizer ", kind));
  for (const auto& [key, value] : normalizer.items()) {
    if (key == "kind" || (key == "alpha" && value == 1.0)) continue;
    return Skip(absl::StrCat("softmax with ", key));
  }
  return absl::OkStatus();
}

absl::Status ApplySoftcap(const json& softcap, ServiceCall& call) {
  const auto cap = NumberFromJson(softcap);
  if (!cap.ok()) return cap.status();
  if (*cap != 0) call.spec.softcap = *cap;
  return absl::OkStatus();
}

absl::Status ApplyTemperature(const json& temperature, ServiceCall& call) {
  const auto value = NumberFromJson(temperature);
  if (!value.ok()) return value.status();
  call.spec.temperatures = {*value};
  return absl::OkStatus();
}

absl::Status ApplyKvLens(const json& lengths, ServiceCall& call) {
  auto integers = Integers(lengths);
  if (!integers.ok()) return integers.status();
  call.kv_lengths = *std::move(integers);
  return absl::OkStatus();
}

// Dense biases come as the input `bias`; here they are only words.
absl::Status ApplyBias(const json& bias, ServiceCall& call) {
  const json kind = bias.is_object() ? bias.value("kind", json()) : bias;
  const std::string name = kind.is_string() ? kind.get<std::string>() : "?";
  if (name == "alibi") {
    call.spec.biases.emplace_back(AlibiBias{});
    return absl::OkStatus();
  }
  if (absl::StartsWith(name, "dense")) return absl::OkStatus();
  return Skip(name == "t5" ? "T5 biases" : absl::StrCat("bias ", name));
}

absl::Status ApplyStorage(const json& storage, ServiceCall& call) {
  if (storage == "bfloat16") {
    call.storage = DType::kBF16;
  } else if (storage == "float16") {
    call.storage = DType::kF16;
  } else {
    return Skip(absl::StrCat("storage ", storage.dump()));
  }
  return absl::OkStatus();
}

absl::Status SkipSink(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("sink logits");
}
absl::Status SkipDropout(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("dropout");
}
absl::Status SkipSparsity(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("sparsity (top-k, threshold)");
}
absl::Status SkipQuantized(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("int8 keys and values");
}
absl::Status SkipQkNorm(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("normalised q and k");
}
absl::Status SkipOutputLayer(const json& /*value*/, ServiceCall& /*call*/) {
  return Skip("an output projection");
}

struct ParamRow {
  const char* name;
  absl::Status (*apply)(const json& value, ServiceCall& call);
};

// In order: kv_lens moves the diagonals of masks.
constexpr ParamRow kParams[] = {
    {"score", ApplyScore},
    {"normalizer", ApplyNormalizer},
    {"softcap", ApplySoftcap},
    {"temperature", ApplyTemperature},
    {"bias", ApplyBias},
    {"storage", ApplyStorage},
    {"sink", SkipSink},
    {"dropout", SkipDropout},
    {"sparsity", SkipSparsity},
    {"kv_quant", SkipQuantized},
    {"qk_norm", SkipQkNorm},
    {"output", SkipOutputLayer},
    {"kv_lens", ApplyKvLens},
    {"mask", ApplyMask},
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

absl::Status ApplyParams(const json& params, ServiceCall& call) {
  std::set<std::string> known;
  for (const ParamRow& row : kParams) {
    known.insert(row.name);
    if (!params.contains(row.name) || params[row.name].is_null()) continue;
    absl::Status status = row.apply(params[row.name], call);
    if (!status.ok()) return status;
  }
  for (const auto& [key, value] : params.items()) {
    if (!known.contains(key) && !value.is_null()) {
      return Skip(absl::StrCat("parameter ", key));
    }
  }
  return absl::OkStatus();
}

// ----------------------------------------------------------------- inputs

// Inputs that are read elsewhere, or are cotangents.
constexpr const char* kKnownInputs[] = {"q",    "k",     "v",     "bias",
                                        "mask", "seg_q", "seg_k", "key_mask",
                                        "dout", "dlse"};

// [B, H, S, D] whatever the case's layout.
absl::StatusOr<HostTensor> ToStandard(const HostTensor& tensor,
                                      const std::string& layout) {
  const Shape& shape = tensor.shape();
  if (layout.empty() && shape.rank() == 4) {
    return HostTensor::Copy(tensor.view());
  }
  if (layout == "BSHD" && shape.rank() == 4) return SwapHeads(tensor);
  if (absl::StartsWith(layout, "BSD (single head)") && shape.rank() == 3) {
    return Reshaped(tensor, Shape{shape[0], 1, shape[1], shape[2]});
  }
  if (layout == "SD" && shape.rank() == 2) {
    return Reshaped(tensor, Shape{1, 1, shape[0], shape[1]});
  }
  return Skip(absl::StrCat("layout ", layout, " of rank ", shape.rank()));
}

// A tensor without elements is not in a file: its extents are parameters.
HostTensor EmptyTensor(const Case& tested, const char* length,
                       const char* width) {
  const json& params = tested.params;
  return HostTensor(DType::kF32, Shape{1, params.value("H", int64_t{1}),
                                       params.value(length, int64_t{0}),
                                       params.value(width, int64_t{0})});
}

absl::Status ReadTensors(const Case& tested, ServiceCall& call) {
  const std::string layout = tested.params.value("layout", "");
  const struct {
    const char* name;
    HostTensor* target;
    const char* length;
    const char* width;
  } kTensors[] = {{"q", &call.q, "Sq", "d_k"},
                  {"k", &call.k, "Sk", "d_k"},
                  {"v", &call.v, "Sk", "d_v"}};
  for (const auto& row : kTensors) {
    const auto found = tested.inputs.find(row.name);
    if (found == tested.inputs.end()) {
      if (!tested.params.contains(row.length)) {
        return Skip(absl::StrCat("a case without ", row.name));
      }
      *row.target = EmptyTensor(tested, row.length, row.width);
      continue;
    }
    auto tensor = ToStandard(found->second, layout);
    if (!tensor.ok()) return tensor.status();
    *row.target = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Case& tested) {
  for (const auto& [name, tensor] : tested.inputs) {
    bool known = false;
    for (const char* input : kKnownInputs) known |= name == input;
    if (!known) return Skip(absl::StrCat("input ", name));
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- outputs

bool IsGradient(const Case& tested, const std::string& output) {
  return absl::EndsWith(tested.op, "_vjp") && absl::StartsWith(output, "d");
}

// What the service calls a case's output, and what is done with it.
struct GiveRow {
  const char* output;
  const char* source;
  double (*convert)(double value);
  DType dtype;
};

double Same(double value) { return value; }
double ToBase2(double value) { return value / kLn2; }
double IsVisible(double logit) {
  return logit == -std::numeric_limits<double>::infinity() ? 0 : 1;
}

constexpr GiveRow kGives[] = {
    {"out", "output", Same, DType::kF64},
    {"weights", "weights", Same, DType::kF64},
    {"lse", "lse", Same, DType::kF64},
    {"lse_keys_only", "lse", Same, DType::kF64},
    {"lse_base2", "lse", ToBase2, DType::kF64},
    {"entropy", "entropy", Same, DType::kF64},
    {"scores", "logits", Same, DType::kF64},
    {"keep", "masked_logits", IsVisible, DType::kBool},
};

const GiveRow* FindGive(const std::string& output) {
  for (const GiveRow& row : kGives) {
    if (output == row.output) return &row;
  }
  return nullptr;
}

// The bias alone: the final logits of the same call with q = 0 and no masks.
absl::StatusOr<HostTensor> BiasOf(const ServiceCall& call,
                                  const Service& service) {
  ServiceCall alone;
  alone.spec.biases = call.spec.biases;
  alone.q = HostTensor(call.q.dtype(), call.q.shape());
  alone.k = HostTensor(call.k.dtype(), call.k.shape());
  alone.v = HostTensor(call.v.dtype(), call.v.shape());
  for (const HostTensor& input : call.inputs) {
    alone.inputs.push_back(HostTensor::Copy(input.view()));
  }
  auto outputs = service.Attend(alone, {"masked_logits"});
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->begin()->second);
}

}  // namespace

absl::StatusOr<ServiceCall> ReadAttentionCall(const Case& tested) {
  ServiceCall call;
  absl::Status status = ReadTensors(tested, call);
  // Parameters first: their reasons to skip say more than those of inputs.
  const absl::Status params = ApplyParams(tested.params, call);
  if (!params.ok()) return params;
  if (status.ok()) status = CheckInputs(tested);
  if (!status.ok()) return status;
  const auto bias = tested.inputs.find("bias");
  if (bias != tested.inputs.end()) {
    call.AddBias(HostTensor::Copy(bias->second.view()));
  }
  status = ApplyMaskInputs(tested, call);
  if (!status.ok()) return status;
  return call;
}

absl::StatusOr<Outcome> HandleAttention(const Case& tested,
                                        const Service& service) {
  const auto call = ReadAttentionCall(tested);
  if (!call.ok()) return call.status();
  Outcome outcome;
  std::set<std::string> sources;
  for (const auto& [name, want] : tested.outputs) {
    if (IsGradient(tested, name)) {
      outcome.forward_only = true;
    } else if (const GiveRow* row = FindGive(name); row != nullptr) {
      sources.insert(row->source);
    } else if (name != "bias") {
      return Skip(absl::StrCat("output ", name));
    }
  }
  const auto outputs = service.Attend(*call, {sources.begin(), sources.end()});
  if (!outputs.ok()) return outputs.status();
  const bool swap = tested.params.value("layout", "") == "BSHD";
  for (const auto& [name, want] : tested.outputs) {
    if (const GiveRow* row = FindGive(name); row != nullptr) {
      const HostTensor& source = outputs->at(row->source);
      if (source.dtype() == DType::kF32) outcome.single_precision.insert(name);
      HostTensor got = Map(source, row->dtype, row->convert);
      outcome.got[name] =
          swap && name == "out" ? SwapHeads(got) : std::move(got);
    } else if (name == "bias") {
      auto bias = BiasOf(*call, service);
      if (!bias.ok()) return bias.status();
      outcome.got[name] = *std::move(bias);
    }
  }
  return outcome;
}

absl::StatusOr<Outcome> HandleExpectError(const Case& tested,
                                          const Service& service) {
  const auto call = ReadAttentionCall(tested);
  if (!call.ok()) return call.status();
  const auto outputs = service.Attend(*call, {"output"});
  if (outputs.ok()) {
    return absl::FailedPreconditionError(
        "the service took a call that it must refuse");
  }
  if (absl::IsInvalidArgument(outputs.status())) return Outcome();
  return outputs.status();
}

}  // namespace attn
