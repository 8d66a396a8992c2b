// A tensor that owns its memory: what callers fill and read.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/codec/schema.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "engine/core/tensor_view.h"

namespace attn {

// The DType whose elements are T. The 16-bit floats have no C++ type: they are
// read and written by To() and From().
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kF64> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::kBool> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::kI8> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kI32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kI64> {};

// Row-major. A moved-from tensor is empty. Thread-compatible.
class HostTensor {
 public:
  // F32 [0].
  HostTensor() : HostTensor(DType::kF32, Shape{0}) {}
  // All zero.
  HostTensor(DType dtype, const Shape& shape);

  // Copies `values`. INVALID_ARGUMENT if their number does not fit.
  template <typename T>
  static absl::StatusOr<HostTensor> From(const Shape& shape,
                                         const std::vector<T>& values);

  // Copies any strided view.
  static HostTensor Copy(const TensorView& view);
  // Copies a tensor of a message. INVALID_ARGUMENT if it contradicts itself.
  static absl::StatusOr<HostTensor> Copy(const v1::Tensor& message);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t element_count() const { return shape_.element_count(); }
  size_t byte_count() const { return buffer_.size(); }
  std::byte* data() { return buffer_.data(); }
  const std::byte* data() const { return buffer_.data(); }
  TensorView view() const;

  // The elements. T must be the dtype's own type.
  template <typename T>
  absl::Span<T> values() {
    CheckType(DTypeOf<T>::value);
    return {reinterpret_cast<T*>(buffer_.data()),
            static_cast<size_t>(element_count())};
  }
  template <typename T>
  absl::Span<const T> values() const {
    CheckType(DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(buffer_.data()),
            static_cast<size_t>(element_count())};
  }

  // Element `index` in row-major order, whatever the dtype.
  double At(int64_t index) const;
  void Set(int64_t index, double value);

  // The elements converted: to nearest for narrower floats. To BOOL: whether
  // the element is not 0.
  HostTensor To(DType dtype) const;
  // The same elements under another shape of as many.
  absl::StatusOr<HostTensor> Reshape(const Shape& shape) &&;

 private:
  // Dies on a mismatch: a fault of the program's.
  void CheckType(DType dtype) const;

  DType dtype_;
  Shape shape_;
  AlignedBuffer buffer_;
};

extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<float>&);
extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<double>&);
extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<bool>&);
extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int8_t>&);
extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int32_t>&);
extern template absl::StatusOr<HostTensor> HostTensor::From(
    const Shape&, const std::vector<int64_t>&);

}  // namespace attn
