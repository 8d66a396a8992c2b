#include "client/load/hdr_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace attn {
namespace {

// Three digits need 2 * 10^3 sub-buckets in the widest half of a bucket: the
// next power of two.
constexpr int kSubBucketBits = 11;
constexpr int64_t kSubBuckets = int64_t{1} << kSubBucketBits;
constexpr int64_t kHalf = kSubBuckets / 2;

// Bucket 0 takes the values below kSubBuckets, bucket b those with b more bits.
int BucketOf(int64_t value) {
  const int bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
  return std::max(0, bits - kSubBucketBits);
}

// The lower half of every bucket but the first repeats the bucket below it, so
// only the upper halves are stored.
size_t IndexOf(int64_t value) {
  const int bucket = BucketOf(value);
  return static_cast<size_t>(bucket * kHalf + (value >> bucket));
}

int BucketAt(size_t index) {
  const auto i = static_cast<int64_t>(index);
  return i < kSubBuckets ? 0 : static_cast<int>(i / kHalf) - 1;
}

int64_t LowestAt(size_t index) {
  const int bucket = BucketAt(index);
  return (static_cast<int64_t>(index) - bucket * kHalf) << bucket;
}

int64_t HighestAt(size_t index) {
  return LowestAt(index) + (int64_t{1} << BucketAt(index)) - 1;
}

}  // namespace

HdrHistogram::HdrHistogram(int64_t highest)
    : highest_(std::max<int64_t>(2, highest)),
      counts_(IndexOf(highest_) + 1, 0) {}

void HdrHistogram::Record(int64_t value, int64_t times) {
  if (times <= 0) return;
  if (value > highest_) clipped_ += times;
  value = std::clamp<int64_t>(value, 0, highest_);
  counts_[IndexOf(value)] += times;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void HdrHistogram::Merge(const HdrHistogram& other) {
  if (other.highest_ != highest_) {
    std::fputs("HdrHistogram::Merge: ranges differ\n", stderr);
    std::abort();
  }
  if (other.count_ == 0) return;
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  clipped_ += other.clipped_;
  sum_ += other.sum_;
}

int64_t HdrHistogram::ValueAtPercentile(double percentile) const {
  if (count_ == 0) return 0;
  // 99.9 % of 1000 is 999 and not, by a rounding error, a little more.
  constexpr double kRounding = 1e-12;
  const double exact = std::clamp(percentile, 0.0, 100.0) / 100 *
                       static_cast<double>(count_) * (1 - kRounding);
  const auto rank =
      std::clamp<int64_t>(static_cast<int64_t>(std::ceil(exact)), 1, count_);
  int64_t seen = 0;
  for (size_t i = IndexOf(min_); i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(HighestAt(i), max_);
  }
  return max_;
}

double HdrHistogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

std::vector<HdrHistogram::Bucket> HdrHistogram::NonEmptyBuckets() const {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    buckets.push_back(
        {.lowest = LowestAt(i), .highest = HighestAt(i), .count = counts_[i]});
  }
  return buckets;
}

}  // namespace attn
