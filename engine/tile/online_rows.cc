// Compiled once for each instruction set; HWY_DYNAMIC_DISPATCH takes the best
// that the machine has.
#include "engine/tile/online_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/online_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/row_lanes-inl.h"
#include "engine/tile/row_moments-inl.h"
#include "engine/tile/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

// Largest and smallest element; NaN passed over.
struct Extent {
  float min = kInfinity;
  float max = -kInfinity;
};

// The same by plain comparisons: for machines whose Max() keeps NaN.
Extent PlainExtentOf(const float* row, size_t count) {
  Extent extent;
  for (size_t i = 0; i < count; ++i) {
    if (row[i] > extent.max) extent.max = row[i];
    if (row[i] < extent.min) extent.min = row[i];
  }
  return extent;
}

// Lane by lane, to `max` and `min`. Max() and Min() of this order pass over NaN
// where the machine's instructions give their second operand then, and keep it
// elsewhere.
void LaneExtentOf(const float* row, size_t count, float* max_lanes,
                  float* min_lanes) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V max = hn::Set(d, -kInfinity);
  V min = hn::Set(d, kInfinity);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, row + i);
    max = hn::Max(x, max);
    min = hn::Min(x, min);
  }
  if (i < count) {
    max = hn::Max(LoadTail(d, row + i, count - i, -kInfinity), max);
    min = hn::Min(LoadTail(d, row + i, count - i, kInfinity), min);
  }
  hn::Store(max, d, max_lanes);
  hn::Store(min, d, min_lanes);
}

// What a row with excluded elements, with NaN or without a finite maximum has.
struct Census {
  size_t visible = 0;
  size_t nans = 0;
  float min = kInfinity;
};

Census TakeCensus(const float* row, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V excluded = hn::Set(d, -kInfinity);
  const V infinity = hn::Set(d, kInfinity);
  V min = infinity;
  size_t hidden = 0;
  Census census;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, row + i);
    const auto is_excluded = hn::Eq(x, excluded);
    const auto is_nan = hn::IsNaN(x);
    hidden += hn::CountTrue(d, is_excluded);
    census.nans += hn::CountTrue(d, is_nan);
    min =
        hn::Min(min, hn::IfThenElse(hn::Or(is_excluded, is_nan), infinity, x));
  }
  census.min = hn::GetLane(hn::MinOfLanes(d, min));
  for (; i < count; ++i) {
    if (row[i] == -kInfinity) {
      ++hidden;
    } else if (std::isnan(row[i])) {
      ++census.nans;
    } else {
      census.min = std::min(census.min, row[i]);
    }
  }
  census.visible = count - hidden;
  return census;
}

size_t FirstAt(const float* row, size_t count, float value) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V wanted = hn::Set(d, value);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, row + i), wanted));
    if (at >= 0) return i + static_cast<size_t>(at);
  }
  while (i + 1 < count && row[i] != value) ++i;
  return i;
}

// row = exp(row - max); the sums lane by lane.
void Exponentiate(float* row, size_t count, float max, float* sum_lanes,
                  float* weighted_lanes) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V pivot = hn::Set(d, max);
  V sum = hn::Zero(d);
  V weighted = hn::Zero(d);
  const auto exp = [&](V x) HWY_ATTR {
    const ExpPair<V> pair = ExpOf(hn::Sub(x, pivot));
    sum = hn::Add(sum, pair.exp);
    weighted = hn::MulAdd(pair.exp, pair.x, weighted);
    return pair.exp;
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(exp(hn::LoadU(d, row + i)), d, row + i);
  }
  if (i < count) {
    const V x = LoadTail(d, row + i, count - i, -kInfinity);
    StoreTail(exp(x), d, row + i, count - i);
  }
  hn::Store(sum, d, sum_lanes);
  hn::Store(weighted, d, weighted_lanes);
}

// Moves the sums of `count` deviations to another centre.
void MoveCentre(double centre, int64_t count, OnlineRow* state) {
  const double shift = state->centre - centre;
  const auto n = static_cast<double>(count);
  state->squares += shift * (2 * state->deviation + n * shift);
  state->deviation += n * shift;
  state->centre = centre;
}

// Visible elements whose mean is the centre of those to come. As long as there
// are fewer it moves on: the first may lie far from the others.
constexpr int64_t kCentred = 128;

// Moves the sums of `state` to a new maximum and returns their factor.
float Rescale(OnlineRow* state, float max) {
  if (state->max == max) return 1;
  const bool is_first = state->max == -kInfinity;
  const double shift =
      static_cast<double>(state->max) - static_cast<double>(max);
  state->max = max;
  if (is_first) return 1;
  // As the outputs are multiplied by it: a float.
  const auto factor = static_cast<float>(std::exp(shift));
  const auto f = static_cast<double>(factor);
  // 0 times an infinite shift would be NaN.
  state->weighted = f == 0 ? 0 : f * (state->weighted + shift * state->sum);
  state->sum *= f;
  state->contribution *= f;
  return factor;
}

// Excluded elements at the end of a row, which become 0: a few of them, as a
// causal mask leaves. Returns how many elements remain.
size_t TrimEnd(float* row, size_t count) {
  constexpr size_t kMost = 16;
  const size_t least = count - std::min(count, kMost);
  for (; count > least && row[count - 1] == -kInfinity; --count) {
    row[count - 1] = 0;
  }
  return count;
}

// What the first look at a row gives.
struct Glance {
  size_t count = 0;    // without excluded elements at the end
  int64_t before = 0;  // visible before the row
  Extent extent;
};

// Brings `state` to the row's maximum and returns the factor of earlier sums.
float TakeExtent(const float* row, const Glance& glance, int64_t first_key,
                 OnlineRow* state) {
  const Extent& extent = glance.extent;
  if (extent.min == -kInfinity || !std::isfinite(extent.max)) {
    const Census census = TakeCensus(row, glance.count);
    state->visible += static_cast<int64_t>(census.visible);
    state->min = std::min(state->min, census.min);
    state->has_nan = state->has_nan || census.nans > 0;
  } else {
    state->visible += static_cast<int64_t>(glance.count);
    state->min = std::min(state->min, extent.min);
  }
  if (extent.max <= state->max) return 1;
  state->top_key =
      first_key + static_cast<int64_t>(FirstAt(row, glance.count, extent.max));
  return Rescale(state, extent.max);
}

// Of a row without maximum every element is -infinity or NaN.
float PivotOf(const OnlineRow& state) {
  return state.max == -kInfinity ? 0 : state.max;
}

// Exponentiate() of a row whose moments are asked for.
void AbsorbMoments(float* row, const Glance& glance, const float* norms,
                   OnlineRow* state, const MomentLanes& sums) {
  const int64_t visible = state->visible - glance.before;
  state->has_moments = true;
  if (visible > 0 && glance.before < kCentred) {
    MoveCentre(CentreOf(row, glance.count, visible), glance.before, state);
  }
  const MomentSource source{PivotOf(*state), static_cast<float>(state->centre),
                            norms};
  if (visible < static_cast<int64_t>(glance.count)) {
    ExponentiateAndSum<true>(row, glance.count, source, sums);
  } else {
    ExponentiateAndSum<false>(row, glance.count, source, sums);
  }
}

// One number for each lane of each row, and for each row.
struct LaneTable {
  HWY_ALIGN float lanes[kLaneRows * hn::MaxLanes(D())];
  HWY_ALIGN float rows[kLaneRows];

  float* Row(size_t r) { return lanes + r * hn::Lanes(D()); }
  template <class Op>
  void Reduce(Op op) {
    ReduceLanes(D(), lanes, op, rows);
  }
};

// Each step for all rows, so that the machine has independent work at hand, and
// lanes are added up for all rows at once. Rows beyond those there are have
// something in their lanes, and nobody looks at it.
class RowsAtOnce {
 public:
  RowsAtOnce(const OnlineTile& tile, OnlineRow* states)
      : tile_(tile), rows_(static_cast<size_t>(tile.rows)), states_(states) {}

  void Absorb(float* factors) {
    Look();
    for (size_t r = 0; r < rows_; ++r) {
      factors[r] =
          TakeExtent(Row(r), glances_[r], tile_.first_key, states_ + r);
    }
    if (tile_.norms == nullptr) {
      AddSums();
    } else {
      AddMoments();
    }
  }

 private:
  float* Row(size_t r) const {
    return tile_.data + static_cast<int64_t>(r) * tile_.stride;
  }

  void Look() {
    for (size_t r = 0; r < rows_; ++r) {
      glances_[r].before = states_[r].visible;
      glances_[r].count = TrimEnd(Row(r), static_cast<size_t>(tile_.count));
      LaneExtentOf(Row(r), glances_[r].count, first_.Row(r), second_.Row(r));
    }
    first_.Reduce(MaxLanesOf());
    second_.Reduce(MinLanesOf());
    for (size_t r = 0; r < rows_; ++r) {
      Extent& extent = glances_[r].extent;
      extent = {second_.rows[r], first_.rows[r]};
      if (HWY_UNLIKELY(std::isnan(extent.max) || std::isnan(extent.min))) {
        extent = PlainExtentOf(Row(r), glances_[r].count);
      }
    }
  }

  void AddSums() {
    for (size_t r = 0; r < rows_; ++r) {
      Exponentiate(Row(r), glances_[r].count, PivotOf(states_[r]),
                   first_.Row(r), second_.Row(r));
    }
    first_.Reduce(AddLanes());
    second_.Reduce(AddLanes());
    for (size_t r = 0; r < rows_; ++r) {
      Add(static_cast<double>(first_.rows[r]),
          static_cast<double>(second_.rows[r]), states_ + r);
    }
  }

  void AddMoments() {
    for (size_t r = 0; r < rows_; ++r) {
      AbsorbMoments(Row(r), glances_[r], tile_.norms, states_ + r,
                    {first_.Row(r), second_.Row(r), deviations_.Row(r),
                     squares_.Row(r), contributions_.Row(r)});
    }
    for (LaneTable* table :
         {&first_, &second_, &deviations_, &squares_, &contributions_}) {
      table->Reduce(AddLanes());
    }
    for (size_t r = 0; r < rows_; ++r) {
      OnlineRow& state = states_[r];
      Add(static_cast<double>(first_.rows[r]),
          static_cast<double>(second_.rows[r]), &state);
      state.deviation += static_cast<double>(deviations_.rows[r]);
      state.squares += static_cast<double>(squares_.rows[r]);
      state.contribution += static_cast<double>(contributions_.rows[r]);
    }
  }

  static void Add(double sum, double weighted, OnlineRow* state) {
    state->sum += sum;
    state->weighted += weighted;
    if (HWY_UNLIKELY(std::isnan(sum)) && std::isfinite(PivotOf(*state))) {
      state->has_nan = true;
    }
  }

  const OnlineTile& tile_;
  const size_t rows_;
  OnlineRow* const states_;
  Glance glances_[kLaneRows];
  LaneTable first_;
  LaneTable second_;
  LaneTable deviations_;
  LaneTable squares_;
  LaneTable contributions_;
};

void AbsorbTileOf(const OnlineTile& tile, OnlineRow* states, float* factors) {
  constexpr auto kRows = static_cast<int64_t>(kLaneRows);
  for (int64_t row = 0; row < tile.rows; row += kRows) {
    OnlineTile part = tile;
    part.data += row * tile.stride;
    part.rows = std::min(tile.rows - row, kRows);
    RowsAtOnce(part, states + row).Absorb(factors + row);
  }
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(AbsorbTileOf);

}  // namespace

void AbsorbTile(const OnlineTile& tile, OnlineRow* states, float* factors) {
  HWY_DYNAMIC_DISPATCH(AbsorbTileOf)(tile, states, factors);
}

}  // namespace attn
#endif  // HWY_ONCE
