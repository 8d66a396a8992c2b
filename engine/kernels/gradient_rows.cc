#include "engine/kernels/gradient_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/row_place.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

std::byte* At(const MutableTensorView& tensor, int64_t offset) {
  return tensor.data + offset * static_cast<int64_t>(SizeOf(tensor.dtype));
}

int64_t WidthOf(const MutableTensorView& tensor) {
  return tensor.shape[tensor.shape.rank() - 1];
}

// Offset in elements of the row-major `index`.
int64_t OffsetOf(const MutableTensorView& tensor, int64_t index) {
  int64_t offset = 0;
  for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = tensor.shape[axis];
    offset += index % extent * tensor.strides[static_cast<size_t>(axis)];
    index /= extent;
  }
  return offset;
}

// Once rounded to the tensor's type.
bool StaysFinite(double value, DType dtype) {
  return dtype == DType::kF64 ? std::isfinite(value)
                              : std::isfinite(static_cast<float>(value));
}

int64_t StoreRow(const MutableTensorView& tensor, int64_t offset,
                 const double* row) {
  const int64_t stride = tensor.strides.back();
  int64_t nonfinite = 0;
  for (int64_t i = 0; i < WidthOf(tensor); ++i) {
    nonfinite += StaysFinite(row[i], tensor.dtype) ? 0 : 1;
    StoreElements(row + i, 1, tensor.dtype, At(tensor, offset + i * stride));
  }
  return nonfinite;
}

int64_t StoreRow(const MutableTensorView& tensor, int64_t offset,
                 const float* row) {
  const int64_t stride = tensor.strides.back();
  const int64_t width = WidthOf(tensor);
  if (stride == 1) {
    StoreElements(row, width, tensor.dtype, At(tensor, offset));
  } else {
    for (int64_t i = 0; i < width; ++i) {
      StoreElements(row + i, 1, tensor.dtype, At(tensor, offset + i * stride));
    }
  }
  return CountNonFinite(row, width);
}

// Zeros are made of zero bytes in every type.
void ClearRow(const MutableTensorView& tensor, int64_t offset) {
  const size_t bytes = SizeOf(tensor.dtype);
  const int64_t stride = tensor.strides.back();
  const int64_t width = WidthOf(tensor);
  if (stride == 1) {
    std::memset(At(tensor, offset), 0, static_cast<size_t>(width) * bytes);
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    std::memset(At(tensor, offset + i * stride), 0, bytes);
  }
}

// The rows of the span that there are: all but those that its sequence of a
// ragged call does not have.
int64_t RowsOfSequence(const std::vector<int64_t>& offsets,
                       const RowSpan& span) {
  if (offsets.empty()) return span.count;
  const auto b = static_cast<size_t>(span.batch);
  const int64_t length = offsets[b + 1] - offsets[b];
  return std::clamp<int64_t>(length - span.begin, 0, span.count);
}

// visit(r, offset of the row's first element) for each row of the span.
template <typename Visit>
void ForEachRow(const KernelCall& call, const MutableTensorView& tensor,
                const RowSpan& span, const Visit& visit) {
  const bool of_q = tensor.data == call.gradients.q.data;
  const std::vector<int64_t>& offsets =
      of_q ? call.args->q_offsets : call.args->kv_offsets;
  const RowPlace place = PlaceOf(tensor, offsets, span.batch, span.head);
  const int64_t rows = RowsOfSequence(offsets, span);
  for (int64_t r = 0; r < rows; ++r) {
    visit(r, place.first + (span.begin + r) * place.row_stride);
  }
}

template <typename T>
void StoreRows(const KernelCall& call, const MutableTensorView& tensor,
               const RowSpan& span, const T* rows, int64_t stride) {
  if (!tensor.wanted()) return;
  int64_t nonfinite = 0;
  ForEachRow(call, tensor, span, [&](int64_t r, int64_t offset) {
    nonfinite += StoreRow(tensor, offset, rows + r * stride);
  });
  call.counters->nonfinite_outputs.fetch_add(nonfinite,
                                             std::memory_order_relaxed);
}

}  // namespace

HeadRows OutputGradientRows(const KernelCall& call, int64_t batch,
                            int64_t head) {
  const TensorView& output = call.cotangents.output;
  return {output, PlaceOf(output, call.args->q_offsets, batch, head)};
}

void StoreHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span, const double* rows) {
  if (!tensor.wanted()) return;
  if (rows == nullptr) return ClearHeadRows(call, tensor, span);
  StoreRows(call, tensor, span, rows, WidthOf(tensor));
}

void StoreHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span, const float* rows, int64_t stride) {
  StoreRows(call, tensor, span, rows, stride);
}

void ClearHeadRows(const KernelCall& call, const MutableTensorView& tensor,
                   const RowSpan& span) {
  if (!tensor.wanted()) return;
  ForEachRow(call, tensor, span,
             [&](int64_t /*r*/, int64_t offset) { ClearRow(tensor, offset); });
}

void StoreFlat(const MutableTensorView& tensor, int64_t first, int64_t count,
               const double* values) {
  for (int64_t i = 0; i < count; ++i) {
    StoreElements(values + i, 1, tensor.dtype,
                  At(tensor, OffsetOf(tensor, first + i)));
  }
}

}  // namespace attn
