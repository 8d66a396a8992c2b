#include "client/cli/check/service.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"
#include "client/library/gradients.h"
#include "client/library/outputs.h"

namespace attn {
namespace {

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// Whether no element changed on its way to a narrower type.
bool SameValues(const HostTensor& a, const HostTensor& b) {
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const double x = a.At(i);
    const double y = b.At(i);
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

// q, k and v in `dtype`: 16-bit types only if they hold the numbers exactly.
// Quantized ones stay as they are.
absl::StatusOr<HostTensor> Convert(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype() == DType::kI8) return HostTensor::Copy(tensor.view());
  HostTensor converted = tensor.To(dtype);
  if (IsHalf(dtype) && !SameValues(tensor, converted)) {
    return Skip(absl::StrCat("numbers that are not ", Name(dtype)));
  }
  return converted;
}

// A stage's tensor: in `dtype` if that holds it, else in single precision.
HostTensor ConvertInput(const HostTensor& tensor, DType dtype) {
  if (!IsFloat(tensor.dtype())) return HostTensor::Copy(tensor.view());
  HostTensor converted = tensor.To(dtype);
  if (IsHalf(dtype) && !SameValues(tensor, converted)) {
    return tensor.To(DType::kF32);
  }
  return converted;
}

// Whether an input scales quantized keys or values.
bool IsScale(const AttentionSpec& spec, size_t input) {
  const auto& quantization = spec.kv_quantization;
  return quantization.has_value() && (input == quantization->key_scale ||
                                      input == quantization->value_scale);
}

// What results and cotangents of a call of `dtype` travel in.
DType WideType(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// The call in `dtype`; `sent` holds its tensors, with room for more cotangents.
absl::StatusOr<CallMessage> Send(const ServiceCall& call, DType dtype,
                                 std::vector<HostTensor>& sent) {
  constexpr size_t kOthers = 5;  // q, k, v and two cotangents
  sent.reserve(call.inputs.size() + kOthers);
  CallMessage message;
  const std::pair<const HostTensor*, TensorView*> kTensors[] = {
      {&call.q, &message.args.q},
      {&call.k, &message.args.k},
      {&call.v, &message.args.v}};
  for (const auto& [tensor, view] : kTensors) {
    if (view == &message.args.v && MakesValues(call.spec)) continue;
    auto converted = Convert(*tensor, dtype);
    if (!converted.ok()) return converted.status();
    *view = sent.emplace_back(*std::move(converted)).view();
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const DType wanted = IsScale(call.spec, i) ? DType::kF32 : dtype;
    message.args.inputs.push_back(
        sent.emplace_back(ConvertInput(call.inputs[i], wanted)).view());
  }
  message.spec = call.spec;
  message.args.q_lengths = call.q_lengths;
  message.args.kv_lengths = call.kv_lengths;
  return message;
}

}  // namespace

uint32_t ServiceCall::AddInput(HostTensor tensor) {
  inputs.push_back(std::move(tensor));
  return static_cast<uint32_t>(inputs.size() - 1);
}

uint32_t ServiceCall::AddNamed(const std::string& name,
                               const HostTensor& tensor) {
  const uint32_t index = AddInput(HostTensor::Copy(tensor.view()));
  places[name] = {.index = index};
  return index;
}

uint32_t ServiceCall::AddTransposed(const std::string& name,
                                    const HostTensor& tensor) {
  const uint32_t index = AddInput(Transposed(tensor));
  places[name] = {.index = index, .transposed = true};
  return index;
}

void ServiceCall::AddBias(HostTensor tensor) {
  spec.biases.emplace_back(DenseBias{.input = AddInput(std::move(tensor))});
}

void ServiceCall::AddMask(HostTensor tensor) {
  spec.masks.emplace_back(DenseMask{.input = AddInput(std::move(tensor))});
}

DType Service::TypeFor(const ServiceCall& call) const {
  switch (precision_) {
    case Precision::kF64:
      return DType::kF64;
    case Precision::kBF16:
      return DType::kBF16;
    case Precision::kF16:
      return DType::kF16;
    case Precision::kF32:
      break;
  }
  // A case may name a storage type that not all of its numbers have.
  const DType storage = call.storage.value_or(DType::kF32);
  for (const HostTensor* tensor : {&call.q, &call.k, &call.v}) {
    if (tensor->dtype() == DType::kI8) continue;
    if (!SameValues(*tensor, tensor->To(storage))) return DType::kF32;
  }
  return storage;
}

absl::StatusOr<TensorMap> Service::Attend(
    const ServiceCall& call, const std::vector<std::string>& names) const {
  const DType dtype = TypeFor(call);
  std::vector<HostTensor> sent;
  auto converted = Send(call, dtype, sent);
  if (!converted.ok()) return converted.status();
  AttendMessage message;
  static_cast<CallMessage&>(message) = *std::move(converted);
  message.output_dtype = WideType(dtype);
  message.kernel = kernel_;
  for (const std::string& name : names) {
    if (absl::Status status = Want(name, message.wanted); !status.ok()) {
      return status;
    }
  }
  const auto result = client_.Attend(message);
  if (!result.ok()) return result.status();
  TensorMap outputs;
  for (const std::string& name : names) {
    auto output = OutputOf(*result, name);
    if (!output.ok()) return output.status();
    outputs.emplace(name, *std::move(output));
  }
  return outputs;
}

absl::StatusOr<CaseGradients> Service::AttendBackward(
    const ServiceCall& call, const CaseCotangents& cotangents) const {
  const DType dtype = TypeFor(call);
  std::vector<HostTensor> sent;
  auto converted = Send(call, dtype, sent);
  if (!converted.ok()) return converted.status();
  BackwardMessage message;
  static_cast<CallMessage&>(message) = *std::move(converted);
  const std::pair<const HostTensor*, TensorView*> brought[] = {
      {cotangents.output, &message.cotangents.output},
      {cotangents.lse, &message.cotangents.lse}};
  for (const auto& [tensor, view] : brought) {
    if (tensor == nullptr) continue;
    *view = sent.emplace_back(tensor->To(WideType(dtype))).view();
  }
  const auto result = client_.AttendBackward(message);
  if (!result.ok()) return result.status();
  CaseGradients gradients;
  gradients.inputs.resize(call.inputs.size());
  const std::pair<const char*, HostTensor*> kTargets[] = {
      {"d_q", &gradients.q}, {"d_k", &gradients.k}, {"d_v", &gradients.v}};
  for (const auto& [name, target] : kTargets) {
    if (target == &gradients.v && MakesValues(call.spec)) continue;
    auto gradient = GradientOf(*result, name);
    if (!gradient.ok()) return gradient.status();
    *target = *std::move(gradient);
  }
  for (const uint32_t index : result->header.gradient_inputs()) {
    auto gradient = GradientOf(*result, absl::StrCat("d_input_", index));
    if (!gradient.ok()) return gradient.status();
    gradients.inputs[index] = *std::move(gradient);
  }
  return gradients;
}

}  // namespace attn
