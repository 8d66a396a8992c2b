// Masks whose allowed keys lie in a band along a diagonal: causal, window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/mask.h"

namespace attn {

// kUnspecified is legal only where top left and bottom right agree.
inline absl::Status CheckAlignment(Alignment alignment, const Problem& problem,
                                   absl::string_view field) {
  if (alignment == Alignment::kTopLeft ||
      alignment == Alignment::kBottomRight) {
    return absl::OkStatus();
  }
  const AttentionShape& shape = problem.shape;
  if (alignment == Alignment::kUnspecified &&
      shape.q_length == shape.kv_length && !problem.has_kv_lengths) {
    return absl::OkStatus();
  }
  return FieldError(
      field,
      absl::StrCat(alignment == Alignment::kUnspecified
                       ? "no alignment"
                       : "an unknown alignment",
                   " with Sq = ", shape.q_length, ", Sk = ", shape.kv_length,
                   problem.has_kv_lengths ? " and kv_lengths" : ""),
      "ALIGNMENT_TOP_LEFT (query i stands at key i) or ALIGNMENT_BOTTOM_RIGHT "
      "(query i stands at key i + Sk - Sq, as when decoding with a cache)");
}

// ", bottom_right" or nothing.
inline const char* AlignmentName(Alignment alignment) {
  switch (alignment) {
    case Alignment::kTopLeft:
      return "top_left";
    case Alignment::kBottomRight:
      return "bottom_right";
    default:
      return "";
  }
}

// position(i) - left <= j <= position(i) + right. Distances are >= 0, as large
// as they like; none is unbounded. Both ends of a row's keys grow with the row.
// Thread-safe: const.
class Band final : public Mask {
 public:
  Band(std::optional<int64_t> left, std::optional<int64_t> right,
       Alignment alignment)
      : left_(left), right_(right), alignment_(alignment) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    if (rows.rows <= 0) return {};
    const int64_t last = rows.row_begin + rows.rows - 1;
    return {KeysOf(call, rows.batch, rows.row_begin).begin,
            KeysOf(call, rows.batch, last).end};
  }

  bool Covers(const CallView& call, const TileBounds& tile) const override {
    if (tile.rows <= 0 || tile.keys <= 0) return true;
    const int64_t last = tile.row_begin + tile.rows - 1;
    return KeysOf(call, tile.batch, last).begin <= tile.key_begin &&
           KeysOf(call, tile.batch, tile.row_begin).end >=
               tile.key_begin + tile.keys;
  }

  void Exclude(const CallView& call, const Tile<float>& tile) const override {
    ExcludeFrom(call, tile);
  }
  void Exclude(const CallView& call, const Tile<double>& tile) const override {
    ExcludeFrom(call, tile);
  }

 private:
  // Keys of one row within [0, Sk]; begin >= end if there are none.
  KeyRange KeysOf(const CallView& call, int64_t batch, int64_t row) const {
    const int64_t length = call.shape.kv_length;
    const int64_t position = row + call.diagonal(batch, alignment_);
    KeyRange keys = {0, length};
    if (left_.has_value()) {
      int64_t begin = 0;
      // An underflow lies left of every key.
      if (__builtin_sub_overflow(position, *left_, &begin)) begin = 0;
      keys.begin = std::clamp<int64_t>(begin, 0, length);
    }
    if (right_.has_value()) {
      int64_t last = 0;
      // An overflow lies right of every key.
      if (__builtin_add_overflow(position, *right_, &last)) last = length;
      keys.end = std::clamp<int64_t>(last, -1, length - 1) + 1;
    }
    return keys;
  }

  template <typename T>
  void ExcludeFrom(const CallView& call, const Tile<T>& tile) const {
    const TileBounds& b = tile.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      const KeyRange keys = KeysOf(call, b.batch, b.row_begin + r);
      const int64_t begin =
          std::clamp<int64_t>(keys.begin - b.key_begin, 0, b.keys);
      const int64_t end =
          std::clamp<int64_t>(keys.end - b.key_begin, begin, b.keys);
      T* row = tile.Row(r);
      std::fill(row, row + begin, -std::numeric_limits<T>::infinity());
      std::fill(row + end, row + b.keys, -std::numeric_limits<T>::infinity());
    }
  }

  std::optional<int64_t> left_;
  std::optional<int64_t> right_;
  Alignment alignment_;
};

}  // namespace attn
