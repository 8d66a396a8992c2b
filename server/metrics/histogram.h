// Histograms that are filled and read without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attn {

// Upper bounds of buckets, rising, and how they are written as the label `le`.
// Thread-safe: const.
class HistogramBounds {
 public:
  explicit HistogramBounds(std::vector<double> upper);

  // Without the bucket of what is beyond the last bound.
  size_t size() const { return upper_.size(); }
  // The first bucket whose bound is not below `value`; size() if none.
  size_t BucketOf(double value) const;
  // The bound of a bucket; "+Inf" for the one beyond the last.
  const std::string& text(size_t bucket) const { return texts_[bucket]; }

 private:
  const std::vector<double> upper_;
  std::vector<std::string> texts_;
};

// Thread-safe; nobody waits. Who reads while others observe may see the count
// of a value whose part of the sum is yet to come.
class Histogram {
 public:
  // `bounds` must outlive this.
  explicit Histogram(const HistogramBounds& bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  // `value` is finite.
  void Observe(double value) {
    counts_[bounds_.BucketOf(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  const HistogramBounds& bounds() const { return bounds_; }
  // Values in one bucket alone.
  uint64_t count(size_t bucket) const {
    return counts_[bucket].load(std::memory_order_relaxed);
  }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const HistogramBounds& bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

// 15 us to 14 s in steps of 1.5: quantiles within 25 % from a tiny call on a
// loopback to a prefill that takes seconds.
const HistogramBounds& LatencyBounds();
// (0, 1] in 20 equal steps.
const HistogramBounds& UnitBounds();
// 1 to 2^10, and to 2^20.
const HistogramBounds& BatchRequestBounds();
const HistogramBounds& BatchTokenBounds();

}  // namespace attn
