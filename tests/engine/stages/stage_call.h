// A call without q, k and v: what a stage sees of one.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/core/problem.h"
#include "engine/tile/tile.h"

namespace attn {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Builds problem and arguments together. Thread-compatible.
class StageCall {
 public:
  StageCall(int64_t batch, int64_t heads, int64_t q_length, int64_t kv_length) {
    problem_.shape = {.batch = batch,
                      .q_heads = heads,
                      .kv_heads = heads,
                      .q_length = q_length,
                      .kv_length = kv_length,
                      .q_dim = 4,
                      .k_dim = 4,
                      .v_dim = 4};
  }

  Problem& problem() { return problem_; }
  AttentionSpec& spec() { return problem_.spec; }
  AttentionArgs& args() { return args_; }
  const AttentionShape& shape() const { return problem_.shape; }
  CallView view() const { return {problem_.shape, args_}; }

  StageCall& KvLengths(std::vector<int64_t> lengths) {
    problem_.has_kv_lengths = true;
    args_.kv_lengths = std::move(lengths);
    return *this;
  }
  StageCall& QLengths(std::vector<int64_t> lengths) {
    problem_.has_q_lengths = true;
    args_.q_lengths = std::move(lengths);
    return *this;
  }

  // Copies `values` as the next input and gives its index.
  template <typename T>
  uint32_t AddInput(DType dtype, const Shape& shape,
                    const std::vector<T>& values) {
    storage_.push_back(
        std::make_unique<std::byte[]>(values.size() * sizeof(T) + 1));
    std::memcpy(storage_.back().get(), values.data(),
                values.size() * sizeof(T));
    args_.inputs.push_back(
        TensorView::Dense(storage_.back().get(), dtype, shape));
    problem_.inputs.push_back({dtype, shape});
    return static_cast<uint32_t>(problem_.inputs.size() - 1);
  }

 private:
  Problem problem_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

// A tile that owns its elements, with rows further apart than they are long.
template <typename T>
class OwnedTile {
 public:
  explicit OwnedTile(const TileBounds& bounds, T fill = T{0})
      : stride_(bounds.keys + kGap),
        data_(static_cast<size_t>(bounds.rows * stride_ + 1), fill),
        tile_{bounds, data_.data(), stride_} {}
  OwnedTile(const OwnedTile&) = delete;
  OwnedTile& operator=(const OwnedTile&) = delete;

  const Tile<T>& tile() const { return tile_; }
  T& At(int64_t row, int64_t key) { return tile_.Row(row)[key]; }

 private:
  static constexpr int64_t kGap = 3;
  int64_t stride_;
  std::vector<T> data_;
  Tile<T> tile_;
};

// Every [begin, end) that is not empty within [0, length).
inline std::vector<KeyRange> RangesUpTo(int64_t length) {
  std::vector<KeyRange> ranges;
  for (int64_t begin = 0; begin < length; ++begin) {
    for (int64_t end = begin + 1; end <= length; ++end) {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

// Calls fn(bounds) for every tile of one head's [q_length, kv_length].
template <typename Fn>
void ForEachTile(const AttentionShape& shape, int64_t batch, int64_t head,
                 const Fn& fn) {
  const std::vector<KeyRange> rows = RangesUpTo(shape.q_length);
  const std::vector<KeyRange> keys = RangesUpTo(shape.kv_length);
  for (const KeyRange& r : rows) {
    for (const KeyRange& k : keys) {
      fn(TileBounds{batch, head, r.begin, r.end - r.begin, k.begin,
                    k.end - k.begin});
    }
  }
}

}  // namespace attn
