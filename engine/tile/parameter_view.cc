#include "engine/tile/parameter_view.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/convert.h"

namespace attn {
namespace {

std::string Alternatives(std::initializer_list<Shape> shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    absl::StrAppend(&text, text.empty() ? "" : " or ", shape.ToString());
  }
  return text;
}

absl::Status CheckInput(const Problem& problem, uint32_t input,
                        std::initializer_list<Shape> shapes,
                        absl::string_view field) {
  if (input >= problem.inputs.size()) {
    return FieldError(
        field, absl::StrCat(input),
        absl::StrCat("the index of one of ", problem.inputs.size(), " inputs"));
  }
  const Shape& shape = problem.inputs[input].shape;
  if (std::find(shapes.begin(), shapes.end(), shape) != shapes.end()) {
    return absl::OkStatus();
  }
  return FieldError(
      field, absl::StrCat("inputs[", input, "] of shape ", shape.ToString()),
      Alternatives(shapes));
}

absl::Status DTypeError(const Problem& problem, uint32_t input,
                        absl::string_view field, absl::string_view expected) {
  return FieldError(field,
                    absl::StrCat("inputs[", input, "] of type ",
                                 Name(problem.inputs[input].dtype)),
                    expected);
}

}  // namespace

absl::Status CheckParameter(const Problem& problem, uint32_t input,
                            std::initializer_list<Shape> shapes,
                            absl::string_view field) {
  absl::Status status = CheckInput(problem, input, shapes, field);
  if (!status.ok() || IsFloat(problem.inputs[input].dtype)) return status;
  return DTypeError(problem, input, field, "F32, F16, BF16 or F64");
}

absl::Status CheckIndices(const Problem& problem, uint32_t input,
                          std::initializer_list<Shape> shapes,
                          absl::string_view field) {
  absl::Status status = CheckInput(problem, input, shapes, field);
  if (!status.ok()) return status;
  const DType dtype = problem.inputs[input].dtype;
  if (dtype == DType::kI32 || dtype == DType::kI64) return absl::OkStatus();
  return DTypeError(problem, input, field, "I32 or I64");
}

const std::byte* ParameterView::Locate(int64_t index) const {
  int64_t offset = 0;
  for (int axis = tensor_.shape.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = tensor_.shape[axis];
    offset += index % extent * tensor_.strides[static_cast<size_t>(axis)];
    index /= extent;
  }
  return tensor_.data + offset * static_cast<int64_t>(SizeOf(tensor_.dtype));
}

template <typename T>
void ParameterView::Load(int64_t first, int64_t count, T* to) const {
  const int rank = tensor_.shape.rank();
  const int64_t width = rank == 0 ? 1 : tensor_.shape[rank - 1];
  const int64_t stride =
      rank == 0 ? 1 : tensor_.strides[static_cast<size_t>(rank - 1)];
  while (count > 0) {
    const int64_t run = std::min(count, width - first % width);
    LoadElements(Locate(first), tensor_.dtype, stride, run, to);
    first += run;
    to += run;
    count -= run;
  }
}

template void ParameterView::Load(int64_t, int64_t, float*) const;
template void ParameterView::Load(int64_t, int64_t, double*) const;

double ParameterView::At(int64_t index) const {
  double value = 0;
  Load(index, 1, &value);
  return value;
}

int64_t ParameterView::IndexAt(int64_t index) const {
  const std::byte* from = Locate(index);
  if (tensor_.dtype == DType::kI32) {
    int32_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

int64_t ParameterView::HeadOffset(int64_t head, int rank_without) const {
  if (rank() <= rank_without) return 0;
  const int64_t heads = tensor_.shape[0];
  return heads == 1 ? 0 : head * (size() / heads);
}

}  // namespace attn
