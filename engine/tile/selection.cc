// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/selection.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// A sample whose order is found by comparing all pairs; so are the last few
// candidates.
constexpr size_t kSample = 64;
// A search takes two or three rounds; beyond these the row was made to defeat
// the sample.
constexpr int kMaxRounds = 24;
constexpr size_t kSumBlock = 512;

// Calls op(vector) for the whole row. Unused lanes are NaN: no comparison holds
// for them.
template <class Op>
HWY_INLINE void ForEach(const float* row, size_t count, Op op) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) op(hn::LoadU(d, row + i));
  if (i < count) op(LoadTail(d, row + i, count - i, kNaN));
}

// Copies the elements for which `holds` does to `to`, in order, and returns how
// many they are. `to` may be the row itself.
template <class Holds>
HWY_INLINE size_t CopyIf(const float* row, size_t count, float* to,
                         Holds holds) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t kept = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, row + i);
    const M keeps = holds(x);
    // At most `i` elements are kept so far: this stays within what was read.
    // Not CompressStore(): where it writes through a mask it is slow.
    hn::StoreU(hn::Compress(x, keeps), d, to + kept);
    kept += hn::CountTrue(d, keeps);
  }
  if (i == count) return kept;
  const V x = LoadTail(d, row + i, count - i, kNaN);
  const M keeps = holds(x);
  const size_t found = hn::CountTrue(d, keeps);
  StoreTail(hn::Compress(x, keeps), d, to + kept, found);
  return kept + found;
}

template <class Holds>
HWY_INLINE size_t CountIf(const float* row, size_t count, Holds holds) {
  size_t found = 0;
  ForEach(row, count,
          [&](V x) HWY_ATTR { found += hn::CountTrue(D(), holds(x)); });
  return found;
}

// The element of which `rank` are larger, or as many as equal ones allow: the
// smallest with at most so many. `count` <= kSample.
HWY_INLINE float ByRank(const float* from, size_t count, size_t rank) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V one = hn::Set(d, 1.0F);
  const V limit = hn::Set(d, static_cast<float>(rank));
  HWY_ALIGN float values[kSample];
  std::copy_n(from, count, values);
  std::fill(values + count, values + kSample, kInfinity);
  V smallest = hn::Set(d, kInfinity);
  for (size_t i = 0; i < count; i += lanes) {
    const V x = hn::Load(d, values + i);
    V larger = hn::Zero(d);
    for (size_t j = 0; j < count; ++j) {
      const M is_larger = hn::Gt(hn::Set(d, values[j]), x);
      larger = hn::Add(larger, hn::IfThenElseZero(is_larger, one));
    }
    const V candidate =
        hn::IfThenElse(hn::Le(larger, limit), x, hn::Set(d, kInfinity));
    smallest = hn::Min(smallest, candidate);
  }
  return hn::GetLane(hn::MinOfLanes(d, smallest));
}

// Elements of which about the k-th lies between, by a sample's account.
struct Bracket {
  float low = 0;
  float high = kInfinity;
};

HWY_INLINE void Sample(const float* row, size_t count, float* sample) {
  for (size_t i = 0; i < kSample; ++i) sample[i] = row[i * count / kSample];
}

HWY_INLINE Bracket BracketOf(const float* row, size_t count, size_t k) {
  HWY_ALIGN float sample[kSample];
  Sample(row, count, sample);
  // Of the sample about `expected` exceed the k-th, give or take its root.
  const double expected =
      static_cast<double>(kSample * k) / static_cast<double>(count);
  const double margin = std::sqrt(expected) + 1;
  const double last = kSample - 1;
  Bracket bracket;
  bracket.low = ByRank(sample, kSample,
                       static_cast<size_t>(std::min(expected + margin, last)));
  if (expected > margin) {
    bracket.high =
        ByRank(sample, kSample, static_cast<size_t>(expected - margin));
  }
  return bracket;
}

// Candidates are copied to scratch, fewer each round.
float KthLargestOf(const float* row, size_t count, size_t k, float* scratch) {
  const D d;
  const float* from = row;
  for (int round = 0; count > kSample && round < kMaxRounds; ++round) {
    const Bracket bracket = BracketOf(from, count, k);
    const V low = hn::Set(d, bracket.low);
    const V high = hn::Set(d, bracket.high);
    size_t above_low = 0;
    size_t above_high = 0;
    ForEach(from, count, [&](V x) HWY_ATTR {
      above_low += hn::CountTrue(d, hn::Gt(x, low));
      above_high += hn::CountTrue(d, hn::Gt(x, high));
    });
    if (above_high >= k) {
      count = CopyIf(from, count, scratch,
                     [&](V x) HWY_ATTR { return hn::Gt(x, high); });
    } else if (above_low >= k) {
      k -= above_high;
      count = CopyIf(from, count, scratch, [&](V x) HWY_ATTR {
        return hn::And(hn::Gt(x, low), hn::Le(x, high));
      });
    } else {
      const size_t below =
          CountIf(from, count, [&](V x) HWY_ATTR { return hn::Lt(x, low); });
      if (count - below >= k) return bracket.low;
      k -= count - below;
      count = CopyIf(from, count, scratch,
                     [&](V x) HWY_ATTR { return hn::Lt(x, low); });
    }
    from = scratch;
  }
  if (count <= kSample) return ByRank(from, count, k - 1);
  if (from == row) std::copy_n(row, count, scratch);
  std::nth_element(scratch, scratch + k - 1, scratch + count,
                   std::greater<float>());
  return scratch[k - 1];
}

// Elements and their sum of exp(x - max).
struct Mass {
  size_t count = 0;
  double weight = 0;
};

// Of those above, or equal to, a value.
template <class Holds>
HWY_INLINE Mass MassIf(const float* row, size_t count, float max, Holds holds) {
  const D d;
  const V pivot = hn::Set(d, max);
  Mass mass;
  for (size_t begin = 0; begin < count; begin += kSumBlock) {
    V sum = hn::Zero(d);
    ForEach(row + begin, std::min(kSumBlock, count - begin), [&](V x) HWY_ATTR {
      const M counts = holds(x);
      const V weight = ExpNonPositive(d, hn::Sub(x, pivot));
      sum = hn::Add(sum, hn::IfThenElseZero(counts, weight));
      mass.count += hn::CountTrue(d, counts);
    });
    mass.weight += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return mass;
}

// Takes the largest of the candidates in scratch until the weight suffices.
Cutoff TakeSorted(float* scratch, size_t count, float max, Mass above,
                  double wanted) {
  std::sort(scratch, scratch + count, std::greater<float>());
  size_t taken = 0;
  while (taken < count && above.weight < wanted) {
    const double x = static_cast<double>(scratch[taken++]);
    above.weight += std::exp(x - static_cast<double>(max));
  }
  return {scratch[std::max<size_t>(taken, 1) - 1],
          static_cast<int64_t>(above.count + taken)};
}

Cutoff LargestByWeightOf(const float* row, size_t count, WeightShare share,
                         float* scratch) {
  const D d;
  const float max = share.max;
  const V lowest = hn::Set(d, -kInfinity);
  // Excluded elements are no candidates.
  const auto is_visible = [&](V x) HWY_ATTR { return hn::Gt(x, lowest); };
  const double wanted =
      share.share * MassIf(row, count, max, is_visible).weight;
  size_t left = CopyIf(row, count, scratch, is_visible);
  Mass above;
  for (int round = 0; left > kSample && round < kMaxRounds; ++round) {
    HWY_ALIGN float sample[kSample];
    Sample(scratch, left, sample);
    const float middle = ByRank(sample, kSample, kSample / 2);
    const V value = hn::Set(d, middle);
    const auto is_above = [&](V x) HWY_ATTR { return hn::Gt(x, value); };
    const auto is_below = [&](V x) HWY_ATTR { return hn::Lt(x, value); };
    const Mass larger = MassIf(scratch, left, max, is_above);
    if (above.weight + larger.weight >= wanted) {
      left = CopyIf(scratch, left, scratch, is_above);
      continue;
    }
    above.count += larger.count;
    above.weight += larger.weight;
    const size_t below = CountIf(scratch, left, is_below);
    const double each =
        std::exp(static_cast<double>(middle) - static_cast<double>(max));
    for (size_t equal = left - larger.count - below; equal > 0; --equal) {
      above.weight += each;
      ++above.count;
      if (above.weight >= wanted) {
        return {middle, static_cast<int64_t>(above.count)};
      }
    }
    left = CopyIf(scratch, left, scratch, is_below);
  }
  if (left == 0) return {-kInfinity, static_cast<int64_t>(above.count)};
  return TakeSorted(scratch, left, max, above, wanted);
}

// Returns how many are at least `value`.
size_t ExcludeBelow(float* row, size_t count, float value) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V limit = hn::Set(d, value);
  const V excluded = hn::Set(d, -kInfinity);
  size_t kept = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, row + i);
    kept += hn::CountTrue(d, hn::Ge(x, limit));
    hn::StoreU(hn::IfThenElse(hn::Lt(x, limit), excluded, x), d, row + i);
  }
  for (; i < count; ++i) {
    if (row[i] >= value) ++kept;
    if (row[i] < value) row[i] = -kInfinity;
  }
  return kept;
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(KthLargestOf);
HWY_EXPORT(LargestByWeightOf);
HWY_EXPORT(ExcludeBelow);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

Cutoff LargestByCount(const float* row, int64_t count, int64_t k,
                      float* scratch) {
  return {
      HWY_DYNAMIC_DISPATCH(KthLargestOf)(row, Size(count), Size(k), scratch),
      k};
}

Cutoff LargestByWeight(const float* row, int64_t count, WeightShare share,
                       float* scratch) {
  return HWY_DYNAMIC_DISPATCH(LargestByWeightOf)(row, Size(count), share,
                                                 scratch);
}

void KeepLargest(float* row, int64_t count, Cutoff cutoff) {
  auto kept = static_cast<int64_t>(
      HWY_DYNAMIC_DISPATCH(ExcludeBelow)(row, Size(count), cutoff.value));
  for (int64_t j = count - 1; j >= 0 && kept > cutoff.count; --j) {
    if (row[j] != cutoff.value) continue;
    row[j] = -std::numeric_limits<float>::infinity();
    --kept;
  }
}

}  // namespace attn
#endif  // HWY_ONCE
