#include "engine/kernels/half_range.h"

#include <cmath>
#include <limits>

#include "engine/tile/row_math.h"

namespace attn {
namespace {

template <typename T>
bool IsBeyond(T x) {
  return std::isfinite(x) && std::abs(static_cast<double>(x)) > kMaxHalf;
}

}  // namespace

template <typename T>
bool ExceedsHalf(const Tile<T>& tile) {
  for (int64_t r = 0; r < tile.bounds.rows; ++r) {
    const RowRange<T> range = ScanRow(tile.Row(r), tile.bounds.keys);
    const auto low = static_cast<double>(range.min);
    const auto high = static_cast<double>(range.max);
    if (low < -kMaxHalf || high > kMaxHalf) return true;
  }
  return false;
}

template <typename T>
int64_t CountBeyondHalf(const Tile<T>& raw, const Tile<T>& final_logits) {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  int64_t found = 0;
  for (int64_t r = 0; r < final_logits.bounds.rows; ++r) {
    const T* before = raw.Row(r);
    const T* after = final_logits.Row(r);
    for (int64_t j = 0; j < final_logits.bounds.keys; ++j) {
      const bool beyond = IsBeyond(before[j]) || IsBeyond(after[j]);
      found += after[j] != kExcluded && beyond ? 1 : 0;
    }
  }
  return found;
}

template bool ExceedsHalf(const Tile<float>&);
template bool ExceedsHalf(const Tile<double>&);
template int64_t CountBeyondHalf(const Tile<float>&, const Tile<float>&);
template int64_t CountBeyondHalf(const Tile<double>&, const Tile<double>&);

}  // namespace attn
