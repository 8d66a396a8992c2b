// How a run's latency went over time.
#pragma once

#include <cstdint>
#include <vector>

#include "client/load/hdr_histogram.h"

namespace attn {

// The requests that were meant to be sent in one interval of the window.
struct TimelinePoint {
  // From the start of the window.
  double start_s = 0;
  double length_s = 0;
  // Those whose latency counts.
  int64_t requests = 0;
  int64_t errors = 0;
  // Nanoseconds, within 3 %; 0 without requests.
  int64_t p50 = 0;
  int64_t p99 = 0;
  int64_t max = 0;
};

// Latencies from the intended send, by the second of the intended send; longer
// intervals where there would be too many. Allocates when made, and not again.
// Thread-compatible.
class LoadTimeline {
 public:
  // `window` nanoseconds, > 0.
  explicit LoadTimeline(int64_t window);

  // `intended` is from the start of the window on.
  void Record(int64_t intended, int64_t latency);
  void CountError(int64_t intended);

  std::vector<TimelinePoint> Points() const;
  // All latencies so far, within 3 %.
  const HdrHistogram& total() const { return total_; }

 private:
  struct Interval {
    HdrHistogram latency;
    int64_t errors = 0;
  };

  Interval& IntervalOf(int64_t intended);

  int64_t window_;
  int64_t length_;
  std::vector<Interval> intervals_;
  HdrHistogram total_;
};

}  // namespace attn
