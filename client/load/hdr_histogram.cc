#include "client/load/hdr_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

// Bucket 0 takes the values below 2^bits, bucket b those with b more bits.
int BucketOf(int64_t value, int bits) {
  const int width =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
  return std::max(0, width - bits);
}

int64_t HalfOf(int bits) { return int64_t{1} << (bits - 1); }

// The lower half of every bucket but the first repeats the bucket below it, so
// only the upper halves are stored.
size_t IndexOf(int64_t value, int bits) {
  const int bucket = BucketOf(value, bits);
  return static_cast<size_t>(bucket * HalfOf(bits) + (value >> bucket));
}

int BucketAt(size_t index, int bits) {
  const auto i = static_cast<int64_t>(index);
  return i < 2 * HalfOf(bits) ? 0 : static_cast<int>(i / HalfOf(bits)) - 1;
}

int64_t LowestAt(size_t index, int bits) {
  const int bucket = BucketAt(index, bits);
  return (static_cast<int64_t>(index) - bucket * HalfOf(bits)) << bucket;
}

int64_t HighestAt(size_t index, int bits) {
  return LowestAt(index, bits) + (int64_t{1} << BucketAt(index, bits)) - 1;
}

// Of one that is told. Sums of many such do not overflow.
constexpr int64_t kMostToldValues = 100'000'000'000'000;

// The sum of values from min to max, but for rounding.
bool SumFits(const HdrHistogram::Contents& contents, int64_t count) {
  constexpr double kRoundingOfSum = 1e-6;
  const auto n = static_cast<double>(count);
  const double least = static_cast<double>(contents.min) * n;
  const double most = static_cast<double>(contents.max) * n;
  return contents.sum >= least * (1 - kRoundingOfSum) &&
         contents.sum <= most * (1 + kRoundingOfSum);
}

}  // namespace

HdrHistogram::HdrHistogram(int64_t highest, int bits)
    : highest_(std::max<int64_t>(2, highest)),
      bits_(bits),
      counts_(IndexOf(highest_, bits_) + 1, 0) {}

void HdrHistogram::Record(int64_t value, int64_t times) {
  if (times <= 0) return;
  if (value > highest_) clipped_ += times;
  value = std::clamp<int64_t>(value, 0, highest_);
  counts_[IndexOf(value, bits_)] += times;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void HdrHistogram::Merge(const HdrHistogram& other) {
  if (other.highest_ != highest_ || other.bits_ != bits_) {
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
  for (size_t i = IndexOf(min_, bits_); i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(HighestAt(i, bits_), max_);
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
    buckets.push_back({.lowest = LowestAt(i, bits_),
                       .highest = HighestAt(i, bits_),
                       .count = counts_[i]});
  }
  return buckets;
}

absl::StatusOr<HdrHistogram> HdrHistogram::From(const Contents& contents) {
  HdrHistogram made;
  if (contents.buckets.empty()) return made;
  int64_t next = 0;
  for (const Bucket& bucket : contents.buckets) {
    const bool fits = bucket.lowest >= next && bucket.lowest <= made.highest_ &&
                      bucket.count > 0 && bucket.count <= kOneHour;
    const size_t index = fits ? IndexOf(bucket.lowest, made.bits_) : 0;
    if (!fits || LowestAt(index, made.bits_) != bucket.lowest) {
      return absl::InvalidArgumentError(
          absl::StrCat("no histogram has a bucket from ", bucket.lowest,
                       " with ", bucket.count, " values here"));
    }
    made.counts_[index] = bucket.count;
    made.count_ += bucket.count;
    if (made.count_ > kMostToldValues) {
      return absl::InvalidArgumentError("a histogram of too many values");
    }
    next = HighestAt(index, made.bits_) + 1;
  }
  const auto in_bucket = [&made](int64_t value, const Bucket& bucket) {
    return value >= bucket.lowest && value <= made.highest_ &&
           IndexOf(value, made.bits_) == IndexOf(bucket.lowest, made.bits_);
  };
  if (!in_bucket(contents.min, contents.buckets.front()) ||
      !in_bucket(contents.max, contents.buckets.back()) ||
      contents.min > contents.max || !SumFits(contents, made.count_) ||
      contents.clipped < 0 || contents.clipped > made.count_) {
    return absl::InvalidArgumentError(
        "a histogram's min, max, sum or clipped do not fit its buckets");
  }
  made.min_ = contents.min;
  made.max_ = contents.max;
  made.sum_ = contents.sum;
  made.clipped_ = contents.clipped;
  return made;
}

}  // namespace attn
