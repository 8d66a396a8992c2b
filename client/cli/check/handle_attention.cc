// Cases that give q, k and v.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/attention_gradients.h"
#include "client/cli/check/attention_params.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/output_layer.h"
#include "client/cli/check/tensor_ops.h"
#include "client/cli/check/transformed_rows.h"

namespace attn {
namespace {

using nlohmann::json;

constexpr double kNaturalLogOf2 = 0.693147180559945309417;

// ----------------------------------------------------------------- inputs

// Inputs that are read elsewhere, or are cotangents.
constexpr const char* kAttentionInputs[] = {
    // Tensors and masks.
    "q", "k", "v", "k_int8", "v_int8", "k_scale", "v_scale", "bias", "mask",
    "seg_q", "seg_k", "key_mask", "dout", "dlse", "block_layout",
    "dropout_keep", "sink", "table",
    // Weights of scores, transforms and the output layer.
    "w", "wq", "wk", "va", "q_gain", "k_gain", "linear_in_weight",
    "linear_query_weight", "linear_query_bias", "linear_context_weight",
    "v_weight", "linear_out_weight", "linear_out_bias"};

// [B, H, S, D] whatever the case's layout: without a head axis, one head.
absl::StatusOr<HostTensor> ToStandard(const HostTensor& tensor,
                                      const std::string& layout) {
  const Shape& shape = tensor.shape();
  const bool plain = layout.empty();
  if (plain && shape.rank() == 4) return HostTensor::Copy(tensor.view());
  if (layout == "BSHD" && shape.rank() == 4) return SwapHeads(tensor);
  if ((plain || absl::StartsWith(layout, "BSD (single head)")) &&
      shape.rank() == 3) {
    return Reshaped(tensor, Shape{shape[0], 1, shape[1], shape[2]});
  }
  if ((plain || layout == "SD") && shape.rank() == 2) {
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

// Absent but for what a case leaves out: v where the values are the keys, and
// v where only scores or weights are asked for.
absl::StatusOr<HostTensor> ReadTensor(const Case& tested, const char* name,
                                      const char* length, const char* width) {
  const std::string layout = tested.params.value("layout", "");
  if (const HostTensor* found = tested.Input(name); found != nullptr) {
    return ToStandard(*found, layout);
  }
  const HostTensor* quantized = tested.Input(absl::StrCat(name, "_int8"));
  if (quantized != nullptr) return ToStandard(*quantized, layout);
  if (tested.params.contains(length)) {
    return EmptyTensor(tested, length, width);
  }
  const HostTensor* keys = tested.Input("k");
  if (name != std::string("v") || keys == nullptr) {
    return Skip(absl::StrCat("a case without ", name));
  }
  if (absl::EndsWith(layout, "values = keys = mem") ||
      !tested.outputs.contains("out")) {
    return ToStandard(*keys, layout);
  }
  return Skip("a case without v");
}

absl::Status ReadAttentionTensors(const Case& tested, ServiceCall& call) {
  const struct {
    const char* name;
    HostTensor* target;
    const char* length;
    const char* width;
  } tensors[] = {{"q", &call.q, "Sq", "d_k"},
                 {"k", &call.k, "Sk", "d_k"},
                 {"v", &call.v, "Sk", "d_v"}};
  for (const auto& row : tensors) {
    auto tensor = ReadTensor(tested, row.name, row.length, row.width);
    if (!tensor.ok()) return tensor.status();
    *row.target = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Case& tested) {
  for (const auto& [name, tensor] : tested.inputs) {
    bool known = false;
    for (const char* input : kAttentionInputs) known |= name == input;
    if (!known) return Skip(absl::StrCat("input ", name));
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- outputs

// What the service calls a case's output, and what is done with it.
struct AttentionGiveRow {
  const char* output;
  const char* source;
  double (*convert)(double value);
  DType dtype;
};

double SameValues(double value) { return value; }
double ToBase2(double value) { return value / kNaturalLogOf2; }
double Exponential(double value) { return std::exp(value); }
double IsVisible(double logit) {
  return logit == -std::numeric_limits<double>::infinity() ? 0 : 1;
}

constexpr AttentionGiveRow kAttentionGives[] = {
    {"out", "output", SameValues, DType::kF64},
    {"weights", "weights", SameValues, DType::kF64},
    {"weights_before_dropout", "weights", SameValues, DType::kF64},
    {"lse", "lse", SameValues, DType::kF64},
    {"lse_keys_only", "lse", SameValues, DType::kF64},
    {"lse_with_sink", "lse_with_sink", SameValues, DType::kF64},
    {"lse_with_n", "lse_with_sink", SameValues, DType::kF64},
    {"lse_base2", "lse", ToBase2, DType::kF64},
    {"entropy", "entropy", SameValues, DType::kF64},
    {"scores", "logits", SameValues, DType::kF64},
    {"kernel", "logits", Exponential, DType::kF64},
    {"keep", "masked_logits", IsVisible, DType::kBool},
};

const AttentionGiveRow* FindAttentionGive(const std::string& output) {
  for (const AttentionGiveRow& row : kAttentionGives) {
    if (output == row.output) return &row;
  }
  return nullptr;
}

// The bias alone: the final logits of the same call with q = 0 and no masks.
absl::StatusOr<HostTensor> BiasOf(const Case& /*tested*/,
                                  const ServiceCall& call,
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

absl::StatusOr<HostTensor> QueriesOf(const Case& /*tested*/,
                                     const ServiceCall& call,
                                     const Service& service) {
  return TransformedRows(call.q, TransformTarget::kQuery, call.spec.transforms,
                         call.inputs, service);
}
absl::StatusOr<HostTensor> KeysOf(const Case& /*tested*/,
                                  const ServiceCall& call,
                                  const Service& service) {
  return TransformedRows(call.k, TransformTarget::kKey, call.spec.transforms,
                         call.inputs, service);
}

// The cosine alone, whatever the case multiplies it by.
absl::StatusOr<HostTensor> CosineOf(const Case& /*tested*/,
                                    const ServiceCall& call,
                                    const Service& service) {
  ServiceCall alone;
  alone.spec.score = CosineScore{};
  alone.q = HostTensor::Copy(call.q.view());
  alone.k = HostTensor::Copy(call.k.view());
  alone.v = HostTensor::Copy(call.v.view());
  auto outputs = service.Attend(alone, {"logits"});
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->begin()->second);
}

// Outputs that take a call of their own.
struct OwnCallRow {
  const char* output;
  absl::StatusOr<HostTensor> (*get)(const Case& tested, const ServiceCall& call,
                                    const Service& service);
};

constexpr OwnCallRow kOwnCalls[] = {{"bias", BiasOf},
                                    {"q_normed", QueriesOf},
                                    {"k_normed", KeysOf},
                                    {"cosine", CosineOf}};

const OwnCallRow* FindOwnCall(const std::string& output) {
  for (const OwnCallRow& row : kOwnCalls) {
    if (output == row.output) return &row;
  }
  return nullptr;
}

// The case's `out` from the service's output.
absl::StatusOr<HostTensor> FinishOutput(const Case& tested, HostTensor output) {
  if (!tested.params.value("output", json()).is_null()) {
    return ApplyOutputLayer(tested, output);
  }
  if (tested.params.value("layout", "") == "BSHD") return SwapHeads(output);
  return output;
}

// Skip() if there is an output that no call can give.
absl::StatusOr<std::set<std::string>> Sources(const Case& tested) {
  std::set<std::string> sources;
  for (const auto& [name, want] : tested.outputs) {
    if (IsGradient(tested, name)) continue;
    if (const AttentionGiveRow* row = FindAttentionGive(name); row != nullptr) {
      sources.insert(row->source);
    } else if (FindOwnCall(name) == nullptr) {
      return Skip(absl::StrCat("output ", name));
    }
  }
  return sources;
}

}  // namespace

absl::StatusOr<ServiceCall> ReadAttentionCall(const Case& tested) {
  ServiceCall call;
  absl::Status status = ReadAttentionTensors(tested, call);
  if (!status.ok()) return status;
  // Parameters first: their reasons to skip say more than those of inputs.
  status = ApplyParams(tested, call);
  if (status.ok()) status = CheckInputs(tested);
  if (!status.ok()) return status;
  if (const HostTensor* bias = tested.Input("bias"); bias != nullptr) {
    call.spec.biases.emplace_back(
        DenseBias{.input = call.AddNamed("bias", *bias)});
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
  const auto sources = Sources(tested);
  if (!sources.ok()) return sources.status();
  const auto outputs =
      service.Attend(*call, {sources->begin(), sources->end()});
  if (!outputs.ok()) return outputs.status();
  for (const auto& [name, want] : tested.outputs) {
    absl::StatusOr<HostTensor> got = absl::NotFoundError(name);
    if (const OwnCallRow* own = FindOwnCall(name); own != nullptr) {
      got = own->get(tested, *call, service);
    } else if (const AttentionGiveRow* row = FindAttentionGive(name);
               row != nullptr) {
      const HostTensor& source = outputs->at(row->source);
      if (source.dtype() == DType::kF32) outcome.single_precision.insert(name);
      got = Map(source, row->dtype, row->convert);
      if (name == "out") got = FinishOutput(tested, *std::move(got));
    } else {
      continue;
    }
    if (!got.ok()) return got.status();
    outcome.got[name] = *std::move(got);
  }
  absl::Status status = AddGradients(tested, *call, *outputs, service, outcome);
  if (!status.ok()) return status;
  return outcome;
}

absl::StatusOr<Outcome> HandleScore(const Case& tested,
                                    const Service& service) {
  const json score = tested.params.value("score", json::object());
  if (score.value("kind", "") != "distances") {
    return HandleAttention(tested, service);
  }
  // Each distance by its name: the negative of the service's score.
  Outcome outcome;
  for (const auto& [name, want] : tested.outputs) {
    Case one;
    one.params["score"] = {{"kind", absl::StrCat("neg_", name)}};
    for (const char* input : {"q", "k"}) {
      if (!tested.HasInput(input)) return Skip("a distance without q and k");
      one.inputs.emplace(input, HostTensor::Copy(tested.Input(input)->view()));
    }
    const auto call = ReadAttentionCall(one);
    if (!call.ok()) return call.status();
    const auto outputs = service.Attend(*call, {"logits"});
    if (!outputs.ok()) return outputs.status();
    outcome.got[name] = Map(outputs->at("logits"), DType::kF64,
                            [](double value) { return -value; });
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
