// Masks that are a predicate of query position and key.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/masks/mask.h"

namespace attn {

// Where a predicate is asked: one query row of one head, at key position
// `position`.
struct QueryAt {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t position = 0;
};

// `Derived` has Allows(const CallView&, const QueryAt&, int64_t key); the call
// is direct, so that the loop over a tile inlines it. Derived may override
// Visible(). Thread-safe: const.
template <typename Derived>
class PredicateMask : public Mask {
 public:
  explicit PredicateMask(Alignment alignment) : alignment_(alignment) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& /*rows*/) const override {
    return {0, call.shape.kv_length};
  }
  bool Covers(const CallView& /*call*/,
              const TileBounds& /*tile*/) const override {
    return false;
  }
  void Exclude(const CallView& call, const Tile<float>& tile) const final {
    ExcludeFrom(call, tile);
  }
  void Exclude(const CallView& call, const Tile<double>& tile) const final {
    ExcludeFrom(call, tile);
  }

 protected:
  int64_t PositionOf(const CallView& call, int64_t batch, int64_t row) const {
    return row + call.diagonal(batch, alignment_);
  }
  // Keys up to the position of the last of `rows`: the hull of a causal mask.
  KeyRange UpToPosition(const CallView& call, const TileBounds& rows) const {
    const int64_t last =
        PositionOf(call, rows.batch, rows.row_begin + rows.rows - 1);
    return {0,
            last + 1 < call.shape.kv_length ? last + 1 : call.shape.kv_length};
  }

 private:
  template <typename T>
  void ExcludeFrom(const CallView& call, const Tile<T>& tile) const {
    const auto& self = static_cast<const Derived&>(*this);
    const TileBounds& b = tile.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      const QueryAt at{b.batch, b.head, b.row_begin + r,
                       PositionOf(call, b.batch, b.row_begin + r)};
      T* row = tile.Row(r);
      for (int64_t j = 0; j < b.keys; ++j) {
        if (self.Allows(call, at, b.key_begin + j)) continue;
        row[j] = -std::numeric_limits<T>::infinity();
      }
    }
  }

  Alignment alignment_;
};

}  // namespace attn
