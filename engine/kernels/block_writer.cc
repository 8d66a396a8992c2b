#include "engine/kernels/block_writer.h"

#include <algorithm>
#include <limits>

#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Elements that are filled by one conversion.
constexpr int64_t kAtOnce = 64;

// One row of a [B, Hq, Sq, ...] tensor.
class RowSlot {
 public:
  RowSlot(const MutableTensorView& tensor, const RowBlock& block, int64_t row)
      : dtype_(tensor.dtype),
        element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))),
        stride_(tensor.shape.rank() == 4 ? tensor.strides[3] : 1),
        data_(tensor.data +
              element_bytes_ * (block.batch * tensor.strides[0] +
                                block.head * tensor.strides[1] +
                                (block.row_begin + row) * tensor.strides[2])) {}

  std::byte* data() const { return data_; }
  int64_t stride() const { return stride_; }

  template <typename T>
  void Put(const T* values, int64_t count) {
    if (stride_ == 1) {
      StoreElements(values, count, dtype_, data_);
      data_ += element_bytes_ * count;
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      StoreElements(values + i, 1, dtype_, data_);
      data_ += element_bytes_ * stride_;
    }
  }
  template <typename T>
  void Fill(T value, int64_t count) {
    T values[kAtOnce];
    std::fill_n(values, std::min(count, kAtOnce), value);
    for (int64_t done = 0; done < count; done += kAtOnce) {
      Put(values, std::min(count - done, kAtOnce));
    }
  }

 private:
  DType dtype_;
  int64_t element_bytes_;
  int64_t stride_;
  std::byte* data_;
};

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

}  // namespace

template <typename T>
void BlockWriter<T>::Scores(const MutableTensorView& tensor,
                            const Tile<T>& tile, T fill) const {
  if (!tensor.wanted()) return;
  const TileBounds& bounds = tile.bounds;
  const int64_t keys = tensor.shape[3];
  for (int64_t r = 0; r < block_.rows; ++r) {
    RowSlot slot(tensor, block_, r);
    if (r >= block_.valid_rows) {
      slot.Fill(fill, keys);
      continue;
    }
    slot.Fill(fill, bounds.key_begin);
    slot.Put(tile.Row(r), bounds.keys);
    slot.Fill(fill, keys - bounds.key_begin - bounds.keys);
  }
}

template <typename T>
void BlockWriter<T>::Logits(const Tile<T>& tile) const {
  Scores(call_.outputs.logits, tile, T{0});
}

template <typename T>
void BlockWriter<T>::MaskedLogits(const Tile<T>& tile) const {
  Scores(call_.outputs.masked_logits, tile, kMinusInfinity<T>);
}

template <typename T>
void BlockWriter<T>::Weights(const Tile<T>& tile) const {
  Scores(call_.outputs.weights, tile, T{0});
}

template <typename T>
void BlockWriter<T>::Output(T* rows) const {
  const MutableTensorView& tensor = call_.outputs.output;
  if (!tensor.wanted()) return;
  const int64_t width = tensor.shape[3];
  int64_t nonfinite = 0;
  for (int64_t r = 0; r < block_.rows; ++r) {
    RowSlot slot(tensor, block_, r);
    if (r >= block_.valid_rows) {
      slot.Fill(T{0}, width);
      continue;
    }
    T* row = rows + r * width;
    const std::byte* stored = slot.data();
    slot.Put(row, width);
    LoadElements(stored, tensor.dtype, slot.stride(), width, row);
    nonfinite += CountNonFinite(row, width);
  }
  call_.counters->nonfinite_outputs.fetch_add(nonfinite,
                                              std::memory_order_relaxed);
}

template <typename T>
RowStatistics* BlockWriter<T>::statistics() const {
  const Shape& q = call_.args->q.shape;
  return call_.row_statistics + (block_.batch * q[1] + block_.head) * q[2] +
         block_.row_begin;
}

template <typename T>
void BlockWriter<T>::Lse() const {
  const MutableTensorView& keys = call_.outputs.lse;
  const MutableTensorView& with_sink = call_.outputs.lse_with_sink;
  for (int64_t r = 0; r < block_.rows; ++r) {
    if (keys.wanted()) RowSlot(keys, block_, r).Put(&statistics()[r].lse, 1);
    if (with_sink.wanted()) {
      RowSlot(with_sink, block_, r).Put(&statistics()[r].lse_with_sink, 1);
    }
  }
}

template <typename T>
void BlockWriter<T>::DropoutKeep(const CallView& view,
                                 const Dropout& dropout) const {
  const MutableTensorView& tensor = call_.outputs.dropout_keep;
  if (!tensor.wanted()) return;
  uint8_t keep[kAtOnce];
  for (int64_t r = 0; r < block_.rows; ++r) {
    std::byte* to = RowSlot(tensor, block_, r).data();
    TileBounds part = {.batch = block_.batch,
                       .head = block_.head,
                       .row_begin = block_.row_begin + r,
                       .rows = 1};
    for (; part.key_begin < tensor.shape[3]; part.key_begin += kAtOnce) {
      part.keys = std::min(kAtOnce, tensor.shape[3] - part.key_begin);
      dropout.Keep(view, part, keep);
      for (int64_t j = 0; j < part.keys; ++j) {
        to[(part.key_begin + j) * tensor.strides[3]] = std::byte{keep[j]};
      }
    }
  }
}

template class BlockWriter<float>;
template class BlockWriter<double>;

}  // namespace attn
