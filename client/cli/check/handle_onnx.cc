// ONNX Attention, opsets 23 to 25.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/check/band.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

// qk_matmul_output_mode.
enum class QkMode : int64_t { kRaw = 0, kCapped = 1, kFinal = 2, kWeights = 3 };

const json& Attributes(const Case& tested) {
  return tested.params.at("attributes");
}

// [B, H, S, D], or [B, S, H * D] with the number of heads as an attribute.
absl::StatusOr<HostTensor> ReadHeads(const Case& tested, const char* name,
                                     const char* heads) {
  const auto found = tested.inputs.find(name);
  if (found == tested.inputs.end()) {
    return Skip(absl::StrCat("a case without ", name));
  }
  if (found->second.shape().rank() == 3) {
    return SplitHeads(found->second,
                      Attributes(tested).value(heads, int64_t{0}));
  }
  return HostTensor::Copy(found->second.view());
}

// Puts the cached keys or values before the new ones.
absl::Status Prepend(const Case& tested, const char* past, HostTensor& tensor) {
  const auto found = tested.inputs.find(past);
  if (found == tested.inputs.end()) return absl::OkStatus();
  auto joined = Concat(found->second, tensor, 2);
  if (!joined.ok()) return joined.status();
  tensor = *std::move(joined);
  return absl::OkStatus();
}

absl::Status ReadOnnxTensors(const Case& tested, ServiceCall& call) {
  auto q = ReadHeads(tested, "q", "q_num_heads");
  auto k = ReadHeads(tested, "k", "kv_num_heads");
  auto v = ReadHeads(tested, "v", "kv_num_heads");
  for (const auto* tensor : {&q, &k, &v}) {
    if (!tensor->ok()) return tensor->status();
  }
  call.q = *std::move(q);
  call.k = *std::move(k);
  call.v = *std::move(v);
  absl::Status status = Prepend(tested, "past_key", call.k);
  if (status.ok()) status = Prepend(tested, "past_value", call.v);
  return status;
}

// A mask may be shorter than the keys: the rest is excluded.
absl::StatusOr<HostTensor> PadMask(const HostTensor& mask, int64_t keys) {
  const Shape& shape = mask.shape();
  const int last = shape.rank() - 1;
  if (last < 0 || shape[last] == 1 || shape[last] >= keys) {
    return HostTensor::Copy(mask.view());
  }
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = keys - dims.back();
  const auto rest = Shape::Create(dims, SizeOf(mask.dtype()), "attn_mask");
  if (!rest.ok()) return rest.status();
  const double excluded = mask.dtype() == DType::kBool
                              ? 0
                              : -std::numeric_limits<double>::infinity();
  return Concat(mask,
                Map(HostTensor(mask.dtype(), *rest), mask.dtype(),
                    [excluded](double) { return excluded; }),
                last);
}

absl::Status ApplyMaskInput(const Case& tested, ServiceCall& call) {
  const auto found = tested.inputs.find("attn_mask");
  if (found == tested.inputs.end()) return absl::OkStatus();
  auto mask = PadMask(found->second, call.kv_length());
  if (!mask.ok()) return mask.status();
  if (mask->dtype() == DType::kBool) {
    call.AddMask(*std::move(mask));
  } else {
    call.AddBias(*std::move(mask));
  }
  return absl::OkStatus();
}

// Where query 0 stands: after the past, or so that the last query is at the end
// of the valid keys, or at 0.
std::vector<int64_t> Offsets(const Case& tested, const ServiceCall& call) {
  if (!call.kv_lengths.empty()) return BottomRightOffsets(call);
  const auto past = tested.inputs.find("past_key");
  const int64_t offset =
      past == tested.inputs.end() ? 0 : past->second.shape()[2];
  return std::vector<int64_t>(static_cast<size_t>(call.batch()), offset);
}

// is_causal and the window's sizes, of which -1 is unbounded.
void ApplyBands(const Case& tested, ServiceCall& call) {
  const json& attributes = Attributes(tested);
  const int64_t left = attributes.value("left_window_size", int64_t{-1});
  const int64_t right = attributes.value("right_window_size", int64_t{-1});
  CaseBand band{.left = std::nullopt,
                .right = std::nullopt,
                .offsets = Offsets(tested, call)};
  if (left >= 0) band.left = left;
  if (right >= 0) band.right = right;
  if (attributes.value("is_causal", int64_t{0}) != 0) {
    band.right = std::min<int64_t>(band.right.value_or(0), 0);
  }
  if (band.left.has_value() || band.right.has_value()) AddBand(band, call);
}

absl::StatusOr<ServiceCall> MakeOnnxCall(const Case& tested) {
  ServiceCall call;
  absl::Status status = ReadOnnxTensors(tested, call);
  if (!status.ok()) return status;
  const json& attributes = Attributes(tested);
  if (attributes.contains("scale")) {
    call.spec.score = DotScore{.scale = attributes["scale"].get<double>(),
                               .learned_scale = std::nullopt};
  }
  const double softcap = attributes.value("softcap", 0.0);
  if (softcap != 0) call.spec.softcap = softcap;
  const auto lengths = tested.inputs.find("nonpad_kv_seqlen");
  if (lengths != tested.inputs.end()) {
    for (int64_t b = 0; b < lengths->second.element_count(); ++b) {
      call.kv_lengths.push_back(static_cast<int64_t>(lengths->second.At(b)));
    }
  }
  ApplyBands(tested, call);
  status = ApplyMaskInput(tested, call);
  if (!status.ok()) return status;
  const json types = tested.params.value("onnx_dtypes", json::object());
  if (types.value("q", "") == "float16") call.storage = DType::kF16;
  return call;
}

// The logits after softcap alone: the final ones of a call without the rest.
absl::StatusOr<HostTensor> CappedLogits(const ServiceCall& call,
                                        const Service& service) {
  ServiceCall capped;
  capped.spec.score = call.spec.score;
  capped.spec.softcap = call.spec.softcap;
  capped.storage = call.storage;
  capped.q = HostTensor::Copy(call.q.view());
  capped.k = HostTensor::Copy(call.k.view());
  capped.v = HostTensor::Copy(call.v.view());
  auto outputs = service.Attend(capped, {"masked_logits"});
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->begin()->second);
}

absl::StatusOr<HostTensor> QkOutput(const Case& tested, const ServiceCall& call,
                                    const Service& service) {
  const auto mode = static_cast<QkMode>(
      Attributes(tested).value("qk_matmul_output_mode", int64_t{0}));
  const char* source = nullptr;
  switch (mode) {
    case QkMode::kRaw:
      source = "logits";
      break;
    case QkMode::kCapped:
      return CappedLogits(call, service);
    case QkMode::kFinal:
      source = "masked_logits";
      break;
    case QkMode::kWeights:
      source = "weights";
      break;
  }
  if (source == nullptr) return Skip("an unknown qk_matmul_output_mode");
  auto outputs = service.Attend(call, {source});
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->begin()->second);
}

constexpr const char* kOnnxAttributes[] = {"scale",
                                           "softcap",
                                           "is_causal",
                                           "q_num_heads",
                                           "kv_num_heads",
                                           "qk_matmul_output_mode",
                                           "softmax_precision",
                                           "left_window_size",
                                           "right_window_size"};
constexpr const char* kOnnxInputs[] = {
    "q", "k", "v", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};

absl::Status CheckKnown(const Case& tested) {
  if (!tested.params.contains("attributes") ||
      !Attributes(tested).is_object()) {
    return Skip("a case without attributes");
  }
  for (const auto& [name, value] : Attributes(tested).items()) {
    if (std::find(std::begin(kOnnxAttributes), std::end(kOnnxAttributes),
                  name) == std::end(kOnnxAttributes)) {
      return Skip(absl::StrCat("attribute ", name));
    }
  }
  for (const auto& [name, tensor] : tested.inputs) {
    if (std::find(std::begin(kOnnxInputs), std::end(kOnnxInputs), name) ==
        std::end(kOnnxInputs)) {
      return Skip(absl::StrCat("input ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> HandleOnnxAttention(const Case& tested,
                                            const Service& service) {
  if (absl::Status status = CheckKnown(tested); !status.ok()) return status;
  auto call = MakeOnnxCall(tested);
  if (!call.ok()) return call.status();
  auto outputs = service.Attend(*call, {"output"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  const bool packed = tested.inputs.at("q").shape().rank() == 3;
  HostTensor& output = outputs->at("output");
  outcome.got["y"] = packed ? JoinHeads(output) : std::move(output);
  if (tested.outputs.contains("qk_matmul_output")) {
    auto logits = QkOutput(tested, *call, service);
    if (!logits.ok()) return logits.status();
    outcome.got["qk_matmul_output"] = *std::move(logits);
  }
  // The cache after the call is what was sent as k and v.
  outcome.got["present_key"] = std::move(call->k);
  outcome.got["present_value"] = std::move(call->v);
  return outcome;
}

}  // namespace attn
