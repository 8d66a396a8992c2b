#include "engine/core/merge_partials.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();
// Columns that are summed at a time, on the stack.
constexpr int64_t kColumns = 64;

// max + ln sum. The share of a part is exp(lse_p - max) / sum: exp(lse_p - lse)
// would lose the digits that a large lse leaves no room for.
class LogSum {
 public:
  void Raise(double x) {
    has_nan_ |= std::isnan(x);
    max_ = std::max(max_, x);
  }
  // Once all have been raised.
  void Add(double x) {
    if (!std::isinf(max_)) sum_ += std::exp(x - max_);
  }
  double value() const {
    if (has_nan_) return std::numeric_limits<double>::quiet_NaN();
    return std::isinf(max_) ? max_ : max_ + std::log(sum_);
  }
  double ShareOf(double x) const {
    if (has_nan_) return std::numeric_limits<double>::quiet_NaN();
    return std::exp(x - max_) / sum_;
  }

 private:
  bool has_nan_ = false;
  double max_ = kNoKey;
  double sum_ = 0;
};

}  // namespace

template <typename T>
double MergePartials(absl::Span<const PartialRow<T>> parts, int64_t width,
                     T* output) {
  LogSum total;
  for (const PartialRow<T>& part : parts) total.Raise(part.lse);
  for (const PartialRow<T>& part : parts) total.Add(part.lse);
  for (int64_t begin = 0; begin < width; begin += kColumns) {
    const int64_t count = std::min(kColumns, width - begin);
    double sums[kColumns] = {};
    for (const PartialRow<T>& part : parts) {
      if (part.lse == kNoKey) continue;
      const double share = total.ShareOf(part.lse);
      for (int64_t c = 0; c < count; ++c) {
        sums[c] += share * static_cast<double>(part.output[begin + c]);
      }
    }
    std::transform(sums, sums + count, output + begin,
                   [](double sum) { return static_cast<T>(sum); });
  }
  return total.value();
}

SinkJoin JoinSinks(double lse, absl::Span<const double> sinks) {
  LogSum total;
  total.Raise(lse);
  for (const double sink : sinks) total.Raise(sink);
  total.Add(lse);
  for (const double sink : sinks) total.Add(sink);
  const double joined = total.value();
  // Nothing joined; the difference of two infinities is no number.
  if (joined == lse) return {joined, 1};
  return {joined, total.ShareOf(lse)};
}

template double MergePartials(absl::Span<const PartialRow<float>>, int64_t,
                              float*);
template double MergePartials(absl::Span<const PartialRow<double>>, int64_t,
                              double*);

}  // namespace attn
