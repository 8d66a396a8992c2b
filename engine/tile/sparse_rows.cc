// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/sparse_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/sparse_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/vector_math-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using Wide = hn::ScalableTag<double>;
using WideV = hn::Vec<Wide>;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
// Elements that may have a weight, once they are few enough to be gathered.
constexpr size_t kRoom = 4096;
// Every law below converges in a few steps; this many end any.
constexpr int kMaxSteps = 100;

// The largest float below `value`, about.
float FloatBelow(double value) {
  const double lowest = std::numeric_limits<float>::lowest();
  return std::nextafter(static_cast<float>(std::max(value, lowest)), kExcluded);
}

// Calls op(wide elements, their index) for those parts of the row in which an
// element exceeds `bound`; the last part may be filled up with excluded ones.
// Returns how many exceed it.
template <class Op>
HWY_INLINE size_t ForEachAbove(const float* row, size_t count, float bound,
                               Op op) {
  const D d;
  const Wide wide;
  const hn::Rebind<float, Wide> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, bound);
  HWY_ALIGN float tail[hn::MaxLanes(d)];
  size_t above = 0;
  for (size_t i = 0; i < count; i += lanes) {
    const float* from = row + i;
    if (HWY_UNLIKELY(count - i < lanes)) {
      hn::Store(LoadTail(d, from, count - i, kExcluded), d, tail);
      from = tail;
    }
    const auto is_above = hn::Gt(hn::LoadU(d, from), limit);
    if (hn::AllFalse(d, is_above)) continue;
    above += hn::CountTrue(d, is_above);
    for (size_t part = 0; part < lanes; part += hn::Lanes(wide)) {
      op(hn::PromoteTo(wide, hn::LoadU(narrow, from + part)), i + part);
    }
  }
  return above;
}

// `to` may be the row itself.
size_t CopyAboveOf(const float* row, size_t count, float bound, float* to,
                   size_t room) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, bound);
  HWY_ALIGN float gathered[hn::MaxLanes(d)];
  size_t kept = 0;
  for (size_t i = 0; i < count; i += lanes) {
    const size_t rest = std::min(lanes, count - i);
    const auto x = rest == lanes ? hn::LoadU(d, row + i)
                                 : LoadTail(d, row + i, rest, kExcluded);
    const auto is_above = hn::Gt(x, limit);
    if (hn::AllFalse(d, is_above)) continue;
    const size_t found = hn::CountTrue(d, is_above);
    // Not CompressStore(): where it writes through a mask it is slow.
    const auto packed = hn::Compress(x, is_above);
    if (kept + lanes <= room) {
      hn::StoreU(packed, d, to + kept);
    } else if (kept + found <= room) {
      hn::Store(packed, d, gathered);
      std::copy_n(gathered, found, to + kept);
    }
    kept += found;
  }
  return kept;
}

HWY_INLINE double Total(WideV sums) {
  return hn::GetLane(hn::SumOfLanes(Wide(), sums));
}

// A law turns `below`, elements less the largest one, into weights, given a
// threshold that Improve() brings from its lower bound to its value: it takes
// the sums over the elements that Add() was called for and says whether they
// made it larger. Elements at most Bound() have no weight, then or later.

// p = [below - tau]_+ by repeated averaging over a shrinking support (Michelot
// 1986): exact after finitely many rounds.
class MichelotLaw {
 public:
  struct Sums {
    WideV sum;
    WideV kept;
  };

  double Bound() const { return tau_; }
  HWY_INLINE void Add(WideV below, Sums* sums) const {
    const Wide d;
    const auto has_weight = hn::Gt(below, hn::Set(d, tau_));
    sums->sum = hn::Add(sums->sum, hn::IfThenElseZero(has_weight, below));
    sums->kept =
        hn::Add(sums->kept, hn::IfThenElseZero(has_weight, hn::Set(d, 1.0)));
  }
  bool Improve(const Sums& sums) {
    const double kept = Total(sums.kept);
    if (kept == support_) return false;
    support_ = kept;
    tau_ = (Total(sums.sum) - 1) / kept;
    return true;
  }
  HWY_INLINE WideV Weight(WideV below) const {
    const Wide d;
    return hn::Max(hn::Sub(below, hn::Set(d, tau_)), hn::Zero(d));
  }

 private:
  double tau_ = -1;
  double support_ = 0;
};

// The two laws below seek the root of |b| - 1, with b the rows' bases
// [(alpha - 1) below - tau]_+ and |b| their norm of power p = 1 / (alpha - 1).
// It is convex in tau, so that Newton's steps from below never pass the root.

// Of a norm's distance from 1: a last step leaves about its square.
constexpr double kSmallest = 1e-8;

// p = 2.
class SquareLaw {
 public:
  struct Sums {
    WideV bases;
    WideV squares;
  };

  double Bound() const { return 2 * tau_; }
  HWY_INLINE void Add(WideV below, Sums* sums) const {
    const WideV base = Base(below);
    sums->bases = hn::Add(sums->bases, base);
    sums->squares = hn::MulAdd(base, base, sums->squares);
  }
  bool Improve(const Sums& sums) {
    const double norm = std::sqrt(Total(sums.squares));
    const double last = tau_;
    tau_ += std::max(norm - 1, 0.0) * norm / Total(sums.bases);
    return tau_ > last && norm - 1 > kSmallest;
  }
  HWY_INLINE WideV Weight(WideV below) const {
    const WideV base = Base(below);
    return hn::Mul(base, base);
  }

 private:
  HWY_INLINE WideV Base(WideV below) const {
    const Wide d;
    return hn::Max(hn::MulSub(hn::Set(d, 0.5), below, hn::Set(d, tau_)),
                   hn::Zero(d));
  }

  double tau_ = -1;
};

// Below this alpha - 1 a float's digits of a power are beyond a double's of its
// base.
constexpr double kNearOne = 1e-5;

// Any p > 1. With tau = (alpha - 1) t - 1 a base is 1 + e, e = (alpha - 1)
// (below - t); kIsNear: the power is taken of e, as 1 + e has lost its digits.
template <bool kIsNear>
class PowerLaw {
 public:
  struct Sums {
    WideV powers;  // of p
    WideV slopes;  // of p - 1
  };

  explicit PowerLaw(double alpha) : slope_(alpha - 1), power_(1 / slope_) {}

  double Bound() const { return t_ - power_; }
  HWY_INLINE void Add(WideV below, Sums* sums) const {
    const Wide d;
    const WideV excess = Excess(below);
    const WideV lower = Power(excess, power_ - 1);
    sums->slopes = hn::Add(sums->slopes, lower);
    sums->powers =
        hn::Add(sums->powers, hn::Mul(lower, hn::Add(excess, hn::Set(d, 1.0))));
  }
  // With S and T the sums and n = S^(1 / p) the norm, the step is
  // (n - 1) / (alpha - 1) * S / (n T).
  bool Improve(const Sums& sums) {
    const double sum = Total(sums.powers);
    const double log = slope_ * std::log(sum);
    const double last = t_;
    t_ += std::max(std::expm1(log) / slope_, 0.0) * sum /
          (std::exp(log) * Total(sums.slopes));
    return t_ > last && sum - 1 > kSmallest;
  }
  HWY_INLINE WideV Weight(WideV below) const {
    return Power(Excess(below), power_);
  }

 private:
  // At least -1, where there is no weight.
  HWY_INLINE WideV Excess(WideV below) const {
    const Wide d;
    const WideV excess =
        hn::Mul(hn::Set(d, slope_), hn::Sub(below, hn::Set(d, t_)));
    return hn::Max(excess, hn::Set(d, -1.0));
  }
  static HWY_INLINE WideV Power(WideV excess, double power) {
    const Wide d;
    const auto none = hn::Le(excess, hn::Set(d, -1.0));
    const WideV e = hn::IfThenZeroElse(none, excess);
    WideV log;
    if constexpr (kIsNear) {
      log = hn::Log1p(d, e);
    } else {
      log = hn::Log(d, hn::Add(e, hn::Set(d, 1.0)));
    }
    return hn::IfThenZeroElse(none,
                              hn::Exp(d, hn::Mul(hn::Set(d, power), log)));
  }

  double slope_;
  double power_;
  double t_ = 0;
};

// Replaces the row by its weights.
template <class Law>
HWY_INLINE void ProjectRow(float* row, size_t count, float max, Law law) {
  const Wide wide;
  const hn::Rebind<float, Wide> narrow;
  const auto shift = static_cast<double>(max);
  const WideV pivot = hn::Set(wide, shift);
  HWY_ALIGN float gathered[kRoom];
  const float* from = row;
  size_t left = count;
  for (int step = 0; step < kMaxSteps; ++step) {
    const float bound = FloatBelow(shift + law.Bound());
    typename Law::Sums sums{hn::Zero(wide), hn::Zero(wide)};
    const size_t above = ForEachAbove(
        from, left, bound,
        [&](WideV x, size_t) HWY_ATTR { law.Add(hn::Sub(x, pivot), &sums); });
    if (from == row && above <= kRoom) {
      left = CopyAboveOf(row, count, bound, gathered, kRoom);
      from = gathered;
    }
    if (!law.Improve(sums)) break;
    if (from == row) continue;
    // Thresholds only rise.
    left = CopyAboveOf(gathered, left, FloatBelow(shift + law.Bound()),
                       gathered, kRoom);
  }
  HWY_ALIGN float weights[hn::MaxLanes(D())];
  const size_t parts = hn::Lanes(wide);
  size_t done = 0;
  ForEachAbove(row, count, FloatBelow(shift + law.Bound()),
               [&](WideV x, size_t i) HWY_ATTR {
                 std::fill(row + done, row + std::min(i, count), 0.0F);
                 const WideV weight = law.Weight(hn::Sub(x, pivot));
                 hn::StoreU(hn::DemoteTo(narrow, weight), narrow, weights);
                 const size_t used =
                     std::min(parts, count - std::min(i, count));
                 std::copy_n(weights, used, row + i);
                 done = std::min(i + used, count);
               });
  std::fill(row + done, row + count, 0.0F);
}

void SparsemaxRowOf(float* row, size_t count, float max) {
  ProjectRow(row, count, max, MichelotLaw());
}

void EntmaxRowOf(float* row, size_t count, float max, double alpha) {
  if (alpha == 2) {
    ProjectRow(row, count, max, MichelotLaw());
  } else if (alpha == 1.5) {
    ProjectRow(row, count, max, SquareLaw());
  } else if (alpha - 1 < kNearOne) {
    ProjectRow(row, count, max, PowerLaw<true>(alpha));
  } else {
    ProjectRow(row, count, max, PowerLaw<false>(alpha));
  }
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(SparsemaxRowOf);
HWY_EXPORT(EntmaxRowOf);
HWY_EXPORT(CopyAboveOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

void SparsemaxRow(float* row, int64_t count, float max) {
  HWY_DYNAMIC_DISPATCH(SparsemaxRowOf)(row, Size(count), max);
}

void EntmaxRow(float* row, int64_t count, float max, double alpha) {
  HWY_DYNAMIC_DISPATCH(EntmaxRowOf)(row, Size(count), max, alpha);
}

int64_t CopyAbove(const float* row, int64_t count, float bound, float* to,
                  int64_t room) {
  return static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(CopyAboveOf)(
      row, Size(count), bound, to, Size(room)));
}

}  // namespace attn
#endif  // HWY_ONCE
