#include "client/cli/check/service.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
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
absl::StatusOr<HostTensor> Convert(const HostTensor& tensor, DType dtype) {
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

}  // namespace

uint32_t ServiceCall::AddInput(HostTensor tensor) {
  inputs.push_back(std::move(tensor));
  return static_cast<uint32_t>(inputs.size() - 1);
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
  return call.storage.value_or(DType::kF32);
}

absl::StatusOr<TensorMap> Service::Attend(
    const ServiceCall& call, const std::vector<std::string>& names) const {
  const DType dtype = TypeFor(call);
  AttendMessage message;
  std::vector<HostTensor> sent;
  sent.reserve(call.inputs.size() + 3);
  TensorView* views[] = {&message.args.q, &message.args.k, &message.args.v};
  const HostTensor* tensors[] = {&call.q, &call.k, &call.v};
  for (size_t i = 0; i < 3; ++i) {
    auto converted = Convert(*tensors[i], dtype);
    if (!converted.ok()) return converted.status();
    *views[i] = sent.emplace_back(*std::move(converted)).view();
  }
  for (const HostTensor& input : call.inputs) {
    message.args.inputs.push_back(
        sent.emplace_back(ConvertInput(input, dtype)).view());
  }
  message.spec = call.spec;
  message.args.q_lengths = call.q_lengths;
  message.args.kv_lengths = call.kv_lengths;
  message.output_dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
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

}  // namespace attn
