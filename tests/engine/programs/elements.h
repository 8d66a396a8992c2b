// Tiles of a test, and how their elements are compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/tile/tile.h"

namespace attn {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A tile that owns its elements, with rows further apart than they are long.
template <typename T>
class Elements {
 public:
  explicit Elements(const TileBounds& bounds, T fill = T{0})
      : stride_(bounds.keys + kGap),
        data_(static_cast<size_t>(bounds.rows * stride_), fill),
        tile_{bounds, data_.data(), stride_} {}
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  const Tile<T>& tile() const { return tile_; }
  T& operator()(int64_t row, int64_t key) { return tile_.Row(row)[key]; }

 private:
  static constexpr int64_t kGap = 3;
  int64_t stride_;
  std::vector<T> data_;
  Tile<T> tile_;
};

// Equal, or both NaN, or within `tolerance` of the larger of |want| and 1.
inline bool Near(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (got == want) return true;
  return std::abs(got - want) <= tolerance * std::max(std::abs(want), 1.0);
}

}  // namespace attn
