#include "engine/kernels/quantization.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

// Absent for a granularity that is not known.
std::optional<Shape> ScaleShape(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  switch (problem.spec.kv_quantization->granularity) {
    case QuantizationGranularity::kPerTensor:
      return Shape{1};
    case QuantizationGranularity::kPerHead:
      return Shape{shape.kv_heads};
    case QuantizationGranularity::kPerToken:
      return Shape{shape.batch, shape.kv_heads, shape.kv_length};
  }
  return std::nullopt;
}

absl::Status CheckScale(const Problem& problem, uint32_t input,
                        const Shape& shape, absl::string_view field) {
  absl::Status status = CheckParameter(problem, input, {shape}, field);
  if (!status.ok()) return status;
  const DType dtype = problem.inputs[input].dtype;
  if (dtype == DType::kF32) return absl::OkStatus();
  return FieldError(
      field, absl::StrCat("inputs[", input, "] of type ", Name(dtype)), "F32");
}

}  // namespace

absl::Status ValidateQuantization(const Problem& problem) {
  const auto& quantization = problem.spec.kv_quantization;
  if (!quantization.has_value()) return absl::OkStatus();
  const std::optional<Shape> shape = ScaleShape(problem);
  if (!shape.has_value()) {
    return FieldError("spec.kv_quantization.granularity",
                      absl::StrCat(static_cast<int>(quantization->granularity)),
                      "per tensor (1), per head (2) or per token (3)");
  }
  absl::Status status = CheckScale(problem, quantization->key_scale, *shape,
                                   "spec.kv_quantization.key_scale.input");
  status.Update(CheckScale(problem, quantization->value_scale, *shape,
                           "spec.kv_quantization.value_scale.input"));
  return status;
}

std::string DescribeQuantization(const KvQuantization& quantization) {
  switch (quantization.granularity) {
    case QuantizationGranularity::kPerTensor:
      return "int8(per_tensor)";
    case QuantizationGranularity::kPerHead:
      return "int8(per_head)";
    case QuantizationGranularity::kPerToken:
      return "int8(per_token)";
  }
  return "int8";
}

}  // namespace attn
