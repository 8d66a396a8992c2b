#include "engine/kernels/head_rows.h"

#include <type_traits>

#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Scales `input` of the call for one head: [1], [Hkv] or [B, Hkv, Sk].
RowScales ScalesOf(const KernelCall& call, uint32_t input, int64_t batch,
                   int64_t kv_head) {
  const TensorView& scales = call.args->inputs[input];
  if (scales.data == nullptr) return {};
  const auto at = [&](int64_t offset) {
    return scales.data + offset * static_cast<int64_t>(sizeof(float));
  };
  switch (call.problem->spec.kv_quantization->granularity) {
    case QuantizationGranularity::kPerTensor:
      return {at(0), 0};
    case QuantizationGranularity::kPerHead:
      return {at(kv_head * scales.strides[0]), 0};
    case QuantizationGranularity::kPerToken:
      return {at(batch * scales.strides[0] + kv_head * scales.strides[1]),
              scales.strides[2]};
  }
  return {};
}

// Rows of one head of what a call keeps in blocks.
HeadRows InBlocks(const KernelCall& call, const TensorView& tensor,
                  int64_t kv_head, int64_t offset, int64_t scale_offset) {
  const KvBlocks& blocks = call.args->kv_blocks;
  const int64_t width = tensor.shape[tensor.shape.rank() - 1];
  const auto of_head = [&](int64_t row_bytes) {
    return kv_head * blocks.block_tokens * row_bytes;
  };
  RowsInBlocks rows{
      .blocks = blocks.blocks,
      .tokens = blocks.block_tokens,
      .offset =
          offset + of_head(width * static_cast<int64_t>(SizeOf(tensor.dtype)))};
  if (tensor.dtype == DType::kI8) {
    rows.scale_offset =
        scale_offset + of_head(static_cast<int64_t>(sizeof(float)));
  }
  return {tensor.dtype, width, rows};
}

}  // namespace

HeadRows::HeadRows(const TensorView& tensor, const RowPlace& place,
                   const RowScales& scales)
    : data_(tensor.data),
      dtype_(tensor.dtype),
      element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))),
      width_(tensor.shape[tensor.shape.rank() - 1]),
      row_stride_(place.row_stride),
      element_stride_(place.element_stride),
      is_matrix_(IsMatrix(tensor, place)),
      scales_(scales) {
  if (data_ == nullptr) return;  // no element: nothing to point into
  data_ += element_bytes_ * place.first;
  is_matrix_ = is_matrix_ && IsAligned();
}

HeadRows::HeadRows(DType dtype, int64_t width, const RowsInBlocks& blocks)
    : dtype_(dtype),
      element_bytes_(static_cast<int64_t>(SizeOf(dtype))),
      width_(width),
      row_stride_(width),
      element_stride_(1),
      blocks_(blocks) {}

const std::byte* HeadRows::RowAt(int64_t row) const {
  if (blocks_.blocks != nullptr) {
    return blocks_.blocks[row / blocks_.tokens] + blocks_.offset +
           row % blocks_.tokens * width_ * element_bytes_;
  }
  return data_ == nullptr ? nullptr
                          : data_ + element_bytes_ * row * row_stride_;
}

const std::byte* HeadRows::ScaleAt(int64_t row) const {
  constexpr auto kScaleBytes = static_cast<int64_t>(sizeof(float));
  if (blocks_.blocks != nullptr) {
    return blocks_.blocks[row / blocks_.tokens] + blocks_.scale_offset +
           row % blocks_.tokens * kScaleBytes;
  }
  return scales_.data + kScaleBytes * row * scales_.stride;
}

bool HeadRows::IsAligned() const {
  return reinterpret_cast<uintptr_t>(data_) %
             static_cast<uintptr_t>(element_bytes_) ==
         0;
}

ConstMatrix HeadRows::MatrixFrom(int64_t row) const {
  if (data_ == nullptr) return {nullptr, row_stride_};
  return {reinterpret_cast<const float*>(data_) + row * row_stride_,
          row_stride_};
}

bool HeadRows::is_stream(int64_t row) const {
  // A run that is followed by another must be of whole steps.
  if (blocks_.blocks != nullptr && row % kStreamRows != 0) return false;
  return element_stride_ == 1 && row_stride_ >= width_ && IsAligned() &&
         (dtype_ == DType::kF32 || dtype_ == DType::kBF16 ||
          dtype_ == DType::kF16 || dtype_ == DType::kI8);
}

void HeadRows::LoadScales(int64_t row, int64_t count, float* to) const {
  if (blocks_.blocks == nullptr) {
    LoadElements(ScaleAt(row), DType::kF32, scales_.stride, count, to);
    return;
  }
  ForEachRun(row, count, [&](int64_t begin, int64_t rows, const std::byte*) {
    LoadElements(ScaleAt(row + begin), DType::kF32, 1, rows, to + begin);
  });
}

HeadRows HeadRows::Unscaled() const {
  HeadRows rows = *this;
  rows.scales_ = {};
  rows.blocks_.scale_offset = -1;
  return rows;
}

ConstMatrix HeadRows::Matrix(int64_t row, int64_t count, float* scratch) const {
  if (is_matrix_ && !has_scales()) return MatrixFrom(row);
  Load(row, count, scratch);
  return {scratch, width_};
}

template <typename T>
void HeadRows::Load(int64_t row, int64_t count, T* to) const {
  if (count == 0 || width_ == 0) return;
  ForEachRun(
      row, count, [&](int64_t begin, int64_t rows, const std::byte* from) {
        if (element_stride_ == 1 && row_stride_ == width_) {
          LoadElements(from, dtype_, 1, rows * width_, to + begin * width_);
          return;
        }
        for (int64_t r = begin; r < begin + rows; ++r) {
          LoadElements(from, dtype_, element_stride_, width_, to + r * width_);
          from += element_bytes_ * row_stride_;
        }
      });
  if (has_scales()) Scale(row, count, to);
}

template <typename T>
void HeadRows::Scale(int64_t row, int64_t count, T* rows) const {
  for (int64_t r = 0; r < count; ++r) {
    T scale = 0;
    LoadElements(ScaleAt(row + r), DType::kF32, 1, 1, &scale);
    ScaleRow(rows + r * width_, width_, scale);
  }
}

HeadRows QueryRows(const KernelCall& call, int64_t batch, int64_t head) {
  const TensorView& q = call.args->q;
  return {q, PlaceOf(q, call.args->q_offsets, batch, head)};
}

HeadRows KeyRows(const KernelCall& call, int64_t batch, int64_t kv_head) {
  const TensorView& k = call.args->k;
  const KvBlocks& blocks = call.args->kv_blocks;
  if (blocks.present()) {
    return InBlocks(call, k, kv_head, 0, blocks.k_scale_offset);
  }
  const RowPlace place = PlaceOf(k, call.args->kv_offsets, batch, kv_head);
  const auto& quantization = call.problem->spec.kv_quantization;
  if (!quantization.has_value()) return {k, place};
  return {k, place, ScalesOf(call, quantization->key_scale, batch, kv_head)};
}

HeadRows ValueRows(const KernelCall& call, int64_t batch, int64_t kv_head) {
  const TensorView& v = call.args->v;
  const KvBlocks& blocks = call.args->kv_blocks;
  if (blocks.present()) {
    return InBlocks(call, v, kv_head, blocks.v_offset, blocks.v_scale_offset);
  }
  const RowPlace place = PlaceOf(v, call.args->kv_offsets, batch, kv_head);
  const auto& quantization = call.problem->spec.kv_quantization;
  if (!quantization.has_value()) return {v, place};
  return {v, place, ScalesOf(call, quantization->value_scale, batch, kv_head)};
}

HeadRows PaddedRows(const TensorView& tensor, int64_t batch, int64_t head) {
  return {tensor, PlaceOf(tensor, {}, batch, head)};
}

template <typename T>
int64_t CountNonFiniteRows(const HeadRows& rows, int64_t row, int64_t count,
                           T* scratch) {
  int64_t found = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (rows.is_matrix()) {
      const ConstMatrix matrix = rows.MatrixFrom(row);
      if (matrix.stride == rows.width()) {
        return CountNonFinite(matrix.data, count * rows.width());
      }
      for (int64_t r = 0; r < count; ++r) {
        found += CountNonFinite(matrix.data + r * matrix.stride, rows.width());
      }
      return found;
    }
  }
  for (int64_t r = row; r < row + count; ++r) {
    rows.Load(r, 1, scratch);
    found += CountNonFinite(scratch, rows.width());
  }
  return found;
}

template void HeadRows::Load(int64_t, int64_t, float*) const;
template void HeadRows::Load(int64_t, int64_t, double*) const;
template int64_t CountNonFiniteRows(const HeadRows&, int64_t, int64_t, float*);
template int64_t CountNonFiniteRows(const HeadRows&, int64_t, int64_t, double*);

}  // namespace attn
