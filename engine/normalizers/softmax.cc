// exp(x - lse).
//
// Non-finite logits follow IEEE 754: a visible NaN, or +infinity (infinity -
// infinity), makes every visible weight of its row NaN, and entropy and peak
// with them; no weight is then the largest, and top_key is -1. Excluded keys
// keep weight 0.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/normalizers/members.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A row with a NaN or +infinity among its visible logits.
template <typename T>
RowStatistics NormalizeNonFinite(T* row, int64_t count,
                                 const RowRange<T>& range) {
  constexpr T excluded = -std::numeric_limits<T>::infinity();
  std::replace_if(
      row, row + count, [](T x) { return x != excluded; },
      std::numeric_limits<T>::quiet_NaN());
  std::replace(row, row + count, excluded, T{0});
  RowStatistics statistics;
  statistics.visible_keys = range.visible;
  statistics.entropy = kNaN;
  statistics.peak_weight = kNaN;
  // ln of an infinite sum is infinite, whatever the weights are.
  statistics.lse = range.has_nan ? kNaN : static_cast<double>(range.max);
  statistics.logit_min = range.has_nan ? kNaN : static_cast<double>(range.min);
  statistics.logit_max = range.has_nan ? kNaN : static_cast<double>(range.max);
  return statistics;
}

template <typename T>
RowStatistics NormalizeRow(T* row, const TileBounds& bounds) {
  const int64_t count = bounds.keys;
  const RowRange<T> range = ScanRow(row, count);
  RowStatistics statistics;
  if (range.visible == 0) {
    std::fill_n(row, count, T{0});
    return statistics;
  }
  if (range.has_nan || std::isinf(range.max)) {
    return NormalizeNonFinite(row, count, range);
  }
  const ExpSums sums = ExpRow(row, count, range.max);
  const double log_sum = std::log(sums.sum);
  const T factor = static_cast<T>(1 / sums.sum);
  ScaleRow(row, count, factor);
  statistics.lse = static_cast<double>(range.max) + log_sum;
  statistics.entropy = log_sum - sums.weighted / sums.sum;
  statistics.peak_weight = 1 / sums.sum;
  // The largest logit has exp(0) = 1, so that its weight is the factor itself.
  statistics.top_key = bounds.key_begin + FirstIndexOf(row, count, factor);
  statistics.visible_keys = range.visible;
  statistics.logit_min = static_cast<double>(range.min);
  statistics.logit_max = static_cast<double>(range.max);
  return statistics;
}

class Softmax final : public Normalizer {
 public:
  NormalizerKind kind() const override { return NormalizerKind::kOnline; }

  void Normalize(const CallView& /*call*/, const Tile<float>& tile,
                 RowStatistics* statistics) const override {
    NormalizeTile(tile, statistics);
  }
  void Normalize(const CallView& /*call*/, const Tile<double>& tile,
                 RowStatistics* statistics) const override {
    NormalizeTile(tile, statistics);
  }

 private:
  template <typename T>
  static void NormalizeTile(const Tile<T>& tile, RowStatistics* statistics) {
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      statistics[r] = NormalizeRow(tile.Row(r), tile.bounds);
    }
  }
};

absl::Status Validate(const NormalizerSpec& /*spec*/,
                      const Problem& /*problem*/, absl::string_view /*field*/) {
  return absl::OkStatus();
}

std::string Describe(const NormalizerSpec& /*spec*/) { return "softmax"; }

std::unique_ptr<Normalizer> Make(const NormalizerSpec& /*spec*/,
                                 const Problem& /*problem*/) {
  return std::make_unique<Softmax>();
}

}  // namespace

NormalizerEntry SoftmaxNormalizerEntry() {
  return {"softmax", "exp(x - lse)", 0, Validate, Describe, Make};
}

}  // namespace attn
