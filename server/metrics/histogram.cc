#include "server/metrics/histogram.h"

#include <algorithm>
#include <cmath>

#include "server/metrics/number_text.h"

namespace attn {
namespace {

std::vector<double> LatencyBuckets() {
  constexpr int kCount = 35;
  std::vector<double> upper;
  double bound = 15e-6;
  for (int i = 0; i < kCount; ++i, bound *= 1.5) upper.push_back(bound);
  return upper;
}

std::vector<double> UnitBuckets() {
  constexpr int kCount = 20;
  std::vector<double> upper;
  for (int i = 1; i <= kCount; ++i) {
    upper.push_back(static_cast<double>(i) / kCount);
  }
  return upper;
}

std::vector<double> PowersOfTwo(int count) {
  std::vector<double> upper;
  for (int i = 0; i < count; ++i) upper.push_back(std::ldexp(1.0, i));
  return upper;
}

}  // namespace

HistogramBounds::HistogramBounds(std::vector<double> upper)
    : upper_(std::move(upper)) {
  for (const double bound : upper_) {
    AppendNumber(bound, texts_.emplace_back());
  }
  texts_.emplace_back("+Inf");
}

size_t HistogramBounds::BucketOf(double value) const {
  return static_cast<size_t>(
      std::lower_bound(upper_.begin(), upper_.end(), value) - upper_.begin());
}

const HistogramBounds& LatencyBounds() {
  static const HistogramBounds kBounds(LatencyBuckets());
  return kBounds;
}

const HistogramBounds& UnitBounds() {
  static const HistogramBounds kBounds(UnitBuckets());
  return kBounds;
}

const HistogramBounds& BatchRequestBounds() {
  static const HistogramBounds kBounds(PowersOfTwo(11));
  return kBounds;
}

const HistogramBounds& BatchTokenBounds() {
  static const HistogramBounds kBounds(PowersOfTwo(21));
  return kBounds;
}

}  // namespace attn
