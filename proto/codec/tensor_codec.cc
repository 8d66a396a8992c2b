#include "proto/codec/tensor_codec.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/spec_codec.h"

// Payloads are used as they come.
static_assert(std::endian::native == std::endian::little);

namespace attn {
namespace {

// Axes of sequence and head in either layout.
constexpr int kHeadAxis = 1;
constexpr int kSequenceAxis = 2;
constexpr int kLayoutRank = 4;

// Tensor or TensorInfo.
template <typename Message>
absl::StatusOr<TensorView> DecodeSignature(const Message& message,
                                           const std::string& name) {
  auto dtype = DecodeDType(message.dtype(), absl::StrCat(name, ".dtype"));
  if (!dtype.ok()) return dtype.status();
  const auto& dims = message.shape();
  auto shape = Shape::Create({dims.data(), static_cast<size_t>(dims.size())},
                             SizeOf(*dtype), absl::StrCat(name, ".shape"));
  if (!shape.ok()) return shape.status();
  return TensorView::Dense(nullptr, *dtype, *std::move(shape));
}

bool IsRowMajor(const TensorView& view) {
  const auto wanted = RowMajorStrides(view.shape);
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    // A stride that is never taken may be anything.
    if (view.shape[axis] > 1 && view.strides[i] != wanted[i]) return false;
  }
  return true;
}

// Copies the elements below `axis` of the one at `source`; `target` moves on.
void Gather(const TensorView& view, int axis, const std::byte* source,
            std::byte*& target) {
  const size_t element = SizeOf(view.dtype);
  if (axis == view.shape.rank()) {
    std::memcpy(target, source, element);
    target += element;
    return;
  }
  const int64_t step =
      view.strides[static_cast<size_t>(axis)] * static_cast<int64_t>(element);
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    Gather(view, axis + 1, source + i * step, target);
  }
}

}  // namespace

absl::StatusOr<TensorView> DecodeTensor(WireTensor& tensor) {
  auto view = DecodeSignature(tensor.metadata, tensor.name);
  if (!view.ok()) return view.status();
  const auto expected = static_cast<size_t>(view->byte_count());
  if (tensor.data.size() != expected) {
    return FieldError(absl::StrCat(tensor.name, ".data"),
                      absl::StrCat(tensor.data.size(), " bytes"),
                      absl::StrCat(expected, " bytes for ", Name(view->dtype),
                                   " ", view->shape.ToString()));
  }
  if (expected == 0) tensor.data = AlignedBuffer(0);
  view->data = tensor.data.data();
  if (view->dtype == DType::kBool && !tensor.pending) {
    absl::Status status =
        CheckBool({tensor.data.data(), tensor.data.size()}, tensor.name);
    if (!status.ok()) return status;
  }
  return view;
}

absl::StatusOr<TensorView> DecodeTensorSignature(const v1::Tensor& metadata,
                                                 const std::string& name) {
  return DecodeSignature(metadata, name);
}

absl::Status CheckBool(absl::Span<const std::byte> data,
                       const std::string& name) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  uint8_t all = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    all = static_cast<uint8_t>(all | bytes[i]);
  }
  if (all <= 1) return absl::OkStatus();
  size_t first = 0;
  while (bytes[first] <= 1) ++first;
  return FieldError(
      absl::StrCat(name, ".data"),
      absl::StrCat("a byte of ", bytes[first], " at offset ", first),
      "0 (false) or 1 (true) in a BOOL tensor");
}

absl::StatusOr<TensorView> DecodeTensorInfo(const v1::TensorInfo& info,
                                            const std::string& name) {
  return DecodeSignature(info, name);
}

absl::StatusOr<TensorView> FromLayout(TensorView view, v1::TensorLayout layout,
                                      const std::string& name) {
  if (!v1::TensorLayout_IsValid(layout)) {
    return EnumError(absl::StrCat(name, ".layout"), layout,
                     v1::TensorLayout_descriptor(), /*zero_is_legal=*/true);
  }
  if (layout == v1::TENSOR_LAYOUT_UNSPECIFIED) return view;
  if (view.shape.rank() != kLayoutRank) {
    return FieldError(
        absl::StrCat(name, ".shape"), view.shape.ToString(),
        absl::StrCat("4 axes, as ", v1::TensorLayout_Name(layout), " says"));
  }
  return ToLayout(std::move(view), layout == v1::TENSOR_LAYOUT_BSHD);
}

TensorView ToLayout(TensorView view, bool bshd) {
  if (!bshd || view.shape.rank() != kLayoutRank) return view;
  return view.SwapAxes(kHeadAxis, kSequenceAxis);
}

v1::Tensor EncodeTensor(DType dtype, const Shape& shape, bool bshd) {
  v1::Tensor message;
  message.set_dtype(EncodeDType(dtype));
  message.mutable_shape()->Add(shape.dims().begin(), shape.dims().end());
  if (bshd) message.set_layout(v1::TENSOR_LAYOUT_BSHD);
  return message;
}

Payload RowMajorPayload(const TensorView& view) {
  Payload payload;
  payload.size = static_cast<size_t>(view.byte_count());
  if (IsRowMajor(view)) {
    payload.borrowed = view.data;
    return payload;
  }
  payload.owned = AlignedBuffer(payload.size);
  std::byte* target = payload.owned.data();
  Gather(view, 0, view.data, target);
  return payload;
}

}  // namespace attn
