#include "client/cli/check/projection_gradients.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {

absl::StatusOr<ProjectionGradients> ProjectBackward(
    const HostTensor& x, const HostTensor& weight, const HostTensor& d_result) {
  const Shape& shape = weight.shape();
  const int64_t outputs = shape.rank() == 2 ? shape[0] : 0;
  const int64_t width = shape.rank() == 2 ? shape[1] : 0;
  if (outputs * width == 0 ||
      x.element_count() / width != d_result.element_count() / outputs) {
    return FieldError("case",
                      absl::StrCat(x.shape().ToString(), " and ",
                                   d_result.shape().ToString()),
                      absl::StrCat("rows of a layer ", shape.ToString()));
  }
  ProjectionGradients gradients{HostTensor(DType::kF64, x.shape()),
                                HostTensor(DType::kF64, shape),
                                HostTensor(DType::kF64, Shape{outputs})};
  for (int64_t at = 0; at < d_result.element_count(); ++at) {
    const int64_t row = at / outputs * width;
    const int64_t column = at % outputs;
    const double d = d_result.At(at);
    gradients.bias.Set(column, gradients.bias.At(column) + d);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t w = column * width + i;
      gradients.x.Set(row + i, gradients.x.At(row + i) + d * weight.At(w));
      gradients.weight.Set(w, gradients.weight.At(w) + d * x.At(row + i));
    }
  }
  return gradients;
}

HostTensor Sum(const HostTensor& a, const HostTensor& b) {
  HostTensor sum(DType::kF64, a.shape());
  for (int64_t i = 0; i < a.element_count(); ++i) sum.Set(i, a.At(i) + b.At(i));
  return sum;
}

}  // namespace attn
