#include "client/library/host_tensor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/core/half.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

size_t BytesOf(DType dtype, const Shape& shape) {
  return static_cast<size_t>(shape.element_count()) * SizeOf(dtype);
}

template <typename T>
double ReadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<double>(value);
}

double Read(DType dtype, const std::byte* from) {
  uint16_t bits = 0;
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(ReadAs<float>(from));
    case DType::kF64:
      return ReadAs<double>(from);
    case DType::kF16:
      std::memcpy(&bits, from, sizeof(bits));
      return static_cast<double>(FromF16(bits));
    case DType::kBF16:
      std::memcpy(&bits, from, sizeof(bits));
      return static_cast<double>(FromBF16(bits));
    case DType::kBool:
      return *from != std::byte{0} ? 1 : 0;
    case DType::kI8:
      return ReadAs<int8_t>(from);
    case DType::kI32:
      return ReadAs<int32_t>(from);
    case DType::kI64:
      return ReadAs<int64_t>(from);
  }
  return 0;
}

template <typename T>
void WriteAs(double value, std::byte* to) {
  const T typed = static_cast<T>(value);
  std::memcpy(to, &typed, sizeof(typed));
}

void Write(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      return WriteAs<float>(value, to);
    case DType::kF64:
      return WriteAs<double>(value, to);
    case DType::kF16: {
      const uint16_t bits = ToF16(static_cast<float>(value));
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kBF16: {
      const uint16_t bits = ToBF16(static_cast<float>(value));
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kBool:
      *to = value != 0 ? std::byte{1} : std::byte{0};
      return;
    case DType::kI8:
      return WriteAs<int8_t>(value, to);
    case DType::kI32:
      return WriteAs<int32_t>(value, to);
    case DType::kI64:
      return WriteAs<int64_t>(value, to);
  }
}

// Copies one axis after the other; the innermost by elements.
void CopyAxis(const TensorView& view, int axis, const std::byte* from,
              std::byte*& to) {
  const size_t size = SizeOf(view.dtype);
  if (axis == view.shape.rank()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  const int64_t stride =
      view.strides[static_cast<size_t>(axis)] * static_cast<int64_t>(size);
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    CopyAxis(view, axis + 1, from + i * stride, to);
  }
}

}  // namespace

HostTensor::HostTensor(DType dtype, const Shape& shape)
    : dtype_(dtype), shape_(shape), buffer_(BytesOf(dtype, shape)) {
  std::memset(buffer_.data(), 0, buffer_.size());
}

template <typename T>
absl::StatusOr<HostTensor> HostTensor::From(const Shape& shape,
                                            const std::vector<T>& values) {
  auto checked = Shape::Create(shape.dims(), sizeof(T), "shape");
  if (!checked.ok()) return checked.status();
  if (static_cast<int64_t>(values.size()) != shape.element_count()) {
    return FieldError(
        "values", absl::StrCat(values.size(), " elements"),
        absl::StrCat(shape.element_count(), " for shape ", shape.ToString()));
  }
  HostTensor tensor(DTypeOf<T>::value, shape);
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(tensor.data()));
  return tensor;
}

template absl::StatusOr<HostTensor> HostTensor::From(const Shape&,
                                                     const std::vector<float>&);
template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<double>&);
template absl::StatusOr<HostTensor> HostTensor::From(const Shape&,
                                                     const std::vector<bool>&);
template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int8_t>&);
template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int32_t>&);
template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int64_t>&);

HostTensor HostTensor::Copy(const TensorView& view) {
  HostTensor tensor(view.dtype, view.shape);
  if (view.strides == RowMajorStrides(view.shape)) {
    std::memcpy(tensor.data(), view.data, tensor.byte_count());
  } else if (tensor.byte_count() > 0) {
    std::byte* to = tensor.data();
    CopyAxis(view, 0, view.data, to);
  }
  return tensor;
}

absl::StatusOr<HostTensor> HostTensor::Copy(const v1::Tensor& message) {
  const auto dtype = DecodeDType(message.dtype(), "dtype");
  if (!dtype.ok()) return dtype.status();
  const std::vector<int64_t> dims(message.shape().begin(),
                                  message.shape().end());
  const auto shape = Shape::Create(dims, SizeOf(*dtype), "shape");
  if (!shape.ok()) return shape.status();
  if (BytesOf(*dtype, *shape) != message.data().size()) {
    return FieldError("data", absl::StrCat(message.data().size(), " bytes"),
                      absl::StrCat(BytesOf(*dtype, *shape), " for shape ",
                                   shape->ToString()));
  }
  return Copy(TensorView::Dense(message.data().data(), *dtype, *shape));
}

TensorView HostTensor::view() const {
  return TensorView::Dense(buffer_.data(), dtype_, shape_);
}

double HostTensor::At(int64_t index) const {
  return Read(dtype_, data() + static_cast<size_t>(index) * SizeOf(dtype_));
}

void HostTensor::Set(int64_t index, double value) {
  Write(dtype_, value, data() + static_cast<size_t>(index) * SizeOf(dtype_));
}

HostTensor HostTensor::To(DType dtype) const {
  HostTensor result(dtype, shape_);
  for (int64_t i = 0; i < element_count(); ++i) result.Set(i, At(i));
  return result;
}

absl::StatusOr<HostTensor> HostTensor::Reshape(const Shape& shape) && {
  if (shape.element_count() != shape_.element_count()) {
    return FieldError("shape", shape.ToString(),
                      absl::StrCat(element_count(), " elements"));
  }
  shape_ = shape;
  return std::move(*this);
}

void HostTensor::CheckType(DType dtype) const {
  if (dtype == dtype_) return;
  std::fprintf(stderr, "HostTensor: %s read as %s\n",
               std::string(Name(dtype_)).c_str(),
               std::string(Name(dtype)).c_str());
  std::abort();
}

}  // namespace attn
