// Sparsifiers that judge each row by itself.
#pragma once

#include <cstdint>

#include "engine/sparsifiers/sparsifier.h"

namespace attn {

// `Derived` has DropFrom(T* row, int64_t count, T* scratch), with `scratch` as
// long as the row. Thread-safe: const.
template <typename Derived>
class RowSparsifier : public Sparsifier {
 public:
  void Drop(const CallView& /*call*/, const Tile<float>& tile,
            float* scratch) const final {
    DropRows(tile, scratch);
  }
  void Drop(const CallView& /*call*/, const Tile<double>& tile,
            double* scratch) const final {
    DropRows(tile, scratch);
  }

 private:
  template <typename T>
  void DropRows(const Tile<T>& tile, T* scratch) const {
    const auto& self = static_cast<const Derived&>(*this);
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      self.DropFrom(tile.Row(r), tile.bounds.keys, scratch);
    }
  }
};

}  // namespace attn
