#include "client/load/load_timeline.h"

#include <algorithm>

namespace attn {
namespace {

constexpr int64_t kOneSecond = 1'000'000'000;
constexpr int64_t kMostIntervals = 120;
// Within 1/32: what a bar of a plot can show.
constexpr int kCoarseBits = 6;

// Whole seconds, as few as do.
int64_t IntervalLength(int64_t window) {
  const int64_t least = (window + kMostIntervals - 1) / kMostIntervals;
  return (least + kOneSecond - 1) / kOneSecond * kOneSecond;
}

HdrHistogram Coarse() {
  return HdrHistogram(HdrHistogram::kOneHour, kCoarseBits);
}

}  // namespace

LoadTimeline::LoadTimeline(int64_t window)
    : window_(std::max<int64_t>(1, window)),
      length_(IntervalLength(window_)),
      intervals_(static_cast<size_t>((window_ + length_ - 1) / length_),
                 Interval{.latency = Coarse()}),
      total_(Coarse()) {}

LoadTimeline::Interval& LoadTimeline::IntervalOf(int64_t intended) {
  const auto last = static_cast<int64_t>(intervals_.size()) - 1;
  return intervals_[static_cast<size_t>(
      std::clamp<int64_t>(intended / length_, 0, last))];
}

void LoadTimeline::Record(int64_t intended, int64_t latency) {
  IntervalOf(intended).latency.Record(latency);
  total_.Record(latency);
}

void LoadTimeline::CountError(int64_t intended) {
  ++IntervalOf(intended).errors;
}

std::vector<TimelinePoint> LoadTimeline::Points() const {
  std::vector<TimelinePoint> points;
  int64_t start = 0;
  for (const Interval& interval : intervals_) {
    const int64_t length = std::min(length_, window_ - start);
    points.push_back({.start_s = static_cast<double>(start) / kOneSecond,
                      .length_s = static_cast<double>(length) / kOneSecond,
                      .requests = interval.latency.count(),
                      .errors = interval.errors,
                      .p50 = interval.latency.ValueAtPercentile(50),
                      .p99 = interval.latency.ValueAtPercentile(99),
                      .max = interval.latency.max()});
    start += length_;
  }
  return points;
}

}  // namespace attn
