// A histogram of durations with a bounded relative error over nine decades:
// Gil Tene's High Dynamic Range histogram. Buckets double in width; each is
// divided into equal sub-buckets, so that any value is known to three digits,
// or fewer where less memory counts.
//
//   HdrHistogram latency;
//   latency.Record(nanoseconds);
//   int64_t p99 = latency.ValueAtPercentile(99);
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace attn {

// Counts values of 0 and more in steps of one (here: nanoseconds).
// Invariants:
//  * a value v is reported as some w with v <= w <= v * (1 + 1 / 1024), in
//    general 1 + 2^(1 - bits);
//  * values below 2048, in general 2^bits, are exact;
//  * merging gives the same histogram as recording everything in one.
// Thread-compatible.
class HdrHistogram {
 public:
  // One hour in nanoseconds.
  static constexpr int64_t kOneHour = int64_t{3600} * 1000 * 1000 * 1000;

  // Three digits need 2 * 10^3 sub-buckets in the widest half of a bucket: the
  // next power of two is 2^11.
  static constexpr int kThreeDigits = 11;

  // Values above `highest` (>= 2) are counted as `highest`. `bits` from 2 on;
  // memory grows as 2^bits.
  explicit HdrHistogram(int64_t highest = kOneHour, int bits = kThreeDigits);

  // Negative values are counted as 0.
  void Record(int64_t value, int64_t times = 1);

  // Adds the other's values. Both must have the same `highest` and `bits`; dies
  // if not.
  void Merge(const HdrHistogram& other);

  // The smallest reported value that is >= `percentile` percent of the values;
  // 0 if there are none. 0 gives the smallest value, 100 gives max().
  int64_t ValueAtPercentile(double percentile) const;

  // Of what was recorded, not of the buckets; 0 if nothing was.
  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const;
  double sum() const { return sum_; }
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

  // What a histogram tells of itself, in exchange for another one.
  struct Contents {
    std::vector<Bucket> buckets;
    int64_t min = 0;
    int64_t max = 0;
    double sum = 0;
    int64_t clipped = 0;
  };
  // A histogram of the default range and precision that equals the one which
  // told its contents. INVALID_ARGUMENT if none can have.
  static absl::StatusOr<HdrHistogram> From(const Contents& contents);

 private:
  int64_t highest_;
  int bits_;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t clipped_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace attn
