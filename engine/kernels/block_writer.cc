#include "engine/kernels/block_writer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/core/row_place.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Elements that are filled by one conversion.
constexpr int64_t kAtOnce = 64;

// One row of a tensor of the call.
class RowSlot {
 public:
  RowSlot(const MutableTensorView& tensor, const RowPlace& place, int64_t row)
      : dtype_(tensor.dtype),
        element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))),
        stride_(place.element_stride),
        data_(tensor.data +
              element_bytes_ * (place.first + row * place.row_stride)) {}
  // Of a [B, Hq, Sq, ...] tensor.
  RowSlot(const MutableTensorView& tensor, const RowBlock& block, int64_t row)
      : RowSlot(tensor, PlaceIn(tensor, block), block.row_begin + row) {}

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
  // Put(), and how many elements are infinite or NaN once rounded; leaves these
  // in `values`.
  template <typename T>
  int64_t PutAndCount(T* values, int64_t count) {
    const std::byte* stored = data_;
    Put(values, count);
    if (sizeof(T) != SizeOf(dtype_)) {
      LoadElements(stored, dtype_, stride_, count, values);
    }
    return CountNonFinite(values, count);
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
  // A tensor of rank 3 has one element in a row.
  static RowPlace PlaceIn(const MutableTensorView& tensor,
                          const RowBlock& block) {
    const auto& strides = tensor.strides;
    return {block.batch * strides[0] + block.head * strides[1], strides[2],
            tensor.shape.rank() == 4 ? strides[3] : 1};
  }

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
  const ScoreWindow& window = call_.outputs.window;
  if (!window.batch.Holds(block_.batch) || !window.head.Holds(block_.head)) {
    return;
  }
  // Where the block lies in the tensor, and the keys of both tile and tensor.
  RowBlock at = block_;
  at.batch -= window.batch.begin;
  at.head -= window.head.begin;
  at.row_begin -= window.query.begin;
  const TileBounds& bounds = tile.bounds;
  const int64_t first = window.key.begin;
  const int64_t last = first + tensor.shape[3];
  const int64_t begin = std::clamp(bounds.key_begin, first, last);
  const int64_t end = std::clamp(bounds.key_begin + bounds.keys, begin, last);
  for (int64_t r = 0; r < block_.rows; ++r) {
    if (!window.query.Holds(block_.row_begin + r)) continue;
    RowSlot slot(tensor, at, r);
    if (r >= block_.valid_rows) {
      slot.Fill(fill, last - first);
      continue;
    }
    slot.Fill(fill, begin - first);
    if (begin < end) {
      slot.Put(tile.Row(r) + (begin - bounds.key_begin), end - begin);
    }
    slot.Fill(fill, last - end);
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
void BlockWriter<T>::Contribution(const Tile<T>& tile) const {
  Scores(call_.outputs.contribution, tile, T{0});
}

template <typename T>
void BlockWriter<T>::GradientWeight(const Tile<T>& tile) const {
  Scores(call_.outputs.gradient_weight, tile, T{0});
}

template <typename T>
void BlockWriter<T>::Output(T* rows) const {
  const MutableTensorView& tensor = call_.outputs.output;
  if (!tensor.wanted()) return;
  const std::vector<int64_t>& offsets = call_.args->q_offsets;
  const RowPlace place = PlaceOf(tensor, offsets, block_.batch, block_.head);
  const int64_t width = tensor.shape[tensor.shape.rank() - 1];
  // There is no row beyond the length of a ragged tensor.
  const int64_t count = offsets.empty() ? block_.rows : block_.valid_rows;
  // Rows without gaps between them are one.
  const bool is_flat = place.element_stride == 1 && place.row_stride == width;
  const int64_t step = is_flat ? std::max<int64_t>(block_.valid_rows, 1) : 1;
  int64_t nonfinite = 0;
  for (int64_t r = 0; r < block_.valid_rows; r += step) {
    nonfinite += RowSlot(tensor, place, block_.row_begin + r)
                     .PutAndCount(rows + r * width, step * width);
  }
  for (int64_t r = block_.valid_rows; r < count; ++r) {
    RowSlot(tensor, place, block_.row_begin + r).Fill(T{0}, width);
  }
  if (nonfinite == 0) return;
  call_.counters->nonfinite_outputs.fetch_add(nonfinite,
                                              std::memory_order_relaxed);
}

template <typename T>
RowStatistics* BlockWriter<T>::statistics() const {
  const AttentionShape& s = call_.problem->shape;
  return call_.row_statistics +
         (block_.batch * s.q_heads + block_.head) * s.q_length +
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
