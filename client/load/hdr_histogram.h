// A histogram of durations with a bounded relative error over nine decades:
// Gil Tene's High Dynamic Range histogram. Buckets double in width; each is
// divided into equal sub-buckets, so that any value is known to three digits.
//
//   HdrHistogram latency;
//   latency.Record(nanoseconds);
//   int64_t p99 = latency.ValueAtPercentile(99);
#pragma once

#include <cstdint>
#include <vector>

namespace attn {

// Counts values of 0 and more in steps of one (here: nanoseconds).
// Invariants:
//  * a value v is reported as some w with v <= w <= v * (1 + 1 / 1024);
//  * values below 2048 are exact;
//  * merging gives the same histogram as recording everything in one.
// Thread-compatible.
class HdrHistogram {
 public:
  // One hour in nanoseconds.
  static constexpr int64_t kOneHour = int64_t{3600} * 1000 * 1000 * 1000;

  // Values above `highest` (>= 2) are counted as `highest`.
  explicit HdrHistogram(int64_t highest = kOneHour);

  // Negative values are counted as 0.
  void Record(int64_t value, int64_t times = 1);

  // Adds the other's values. Both must have the same `highest`; dies if not.
  void Merge(const HdrHistogram& other);

  // The smallest reported value that is >= `percentile` percent of the values;
  // 0 if there are none. 0 gives the smallest value, 100 gives max().
  int64_t ValueAtPercentile(double percentile) const;

  // Of what was recorded, not of the buckets; 0 if nothing was.
  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const;
  // How many values were above `highest`.
  int64_t clipped() const { return clipped_; }

  // Values between two bounds, both inclusive.
  struct Bucket {
    int64_t lowest = 0;
    int64_t highest = 0;
    int64_t count = 0;

    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  // The buckets that hold something, in ascending order.
  std::vector<Bucket> NonEmptyBuckets() const;

 private:
  int64_t highest_;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t clipped_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace attn
