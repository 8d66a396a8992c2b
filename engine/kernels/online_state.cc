#include "engine/kernels/online_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/pipeline.h"
#include "engine/normalizers/softmax_row.h"

namespace attn {
namespace {

// Adds a state's sums to one of a maximum that is no smaller.
void AddSums(const OnlineRow& from, OnlineRow* to) {
  if (from.visible == 0) return;
  const double distance =
      static_cast<double>(from.max) - static_cast<double>(to->max);
  const double factor = std::exp(distance);
  to->sum += factor * from.sum;
  // exp(x) x goes to 0 with exp(x).
  if (factor == 0) return;
  to->weighted += factor * (from.weighted + from.sum * distance);
}

std::string WhyNotOutputs(const OutputSelection& outputs) {
  if (outputs.logits || outputs.masked_logits || outputs.weights ||
      outputs.dropout_keep || outputs.contribution || outputs.gradient_weight) {
    return "never holds the rows of scores or weights that are asked for";
  }
  return "";
}

// Those that a state has besides what DescribeSoftmax() makes of it; `factor`
// is that of sums over the weights.
void DescribeMoments(const OnlineRow& state, double factor,
                     RowStatistics* statistics) {
  if (!state.has_moments) return;
  const auto keys = static_cast<double>(state.visible);
  statistics->logit_mean = state.centre + state.deviation / keys;
  // The corrected two-pass algorithm (Chan, Golub and LeVeque 1983, eq. 1.7).
  const double squares =
      state.squares - state.deviation * state.deviation / keys;
  // A sum that rounding has made negative is 0; NaN stays.
  statistics->logit_std = squares < 0 ? 0 : std::sqrt(squares / keys);
  statistics->contribution = state.contribution * factor;
}

}  // namespace

std::string WhyNotOnline(const Problem& problem) {
  if (problem.dtype == DType::kF64 || problem.output_dtype == DType::kF64) {
    return "accumulates in F32; F64 tensors need double";
  }
  const Pipeline pipeline(problem);
  if (!pipeline.normalizer().is_softmax()) {
    return "the normalizer is no softmax";
  }
  if (!pipeline.score().is_dot()) {
    return "the score is no product of prepared queries and keys";
  }
  if (pipeline.has_sparsifiers()) return "sparsifiers need whole rows";
  if (problem.spec.weight_program.has_value()) {
    return "a weight program needs normalised weights";
  }
  if (pipeline.dropout().renormalizes()) {
    return "renormalised dropout needs whole rows";
  }
  return WhyNotOutputs(problem.outputs);
}

OnlineRow JoinStates(const OnlineRow& row, const OnlineRow& part) {
  OnlineRow both;
  both.max = std::max(row.max, part.max);
  both.min = std::min(row.min, part.min);
  both.has_nan = row.has_nan || part.has_nan;
  both.visible = row.visible + part.visible;
  both.top_key = part.max > row.max ? part.top_key : row.top_key;
  AddSums(row, &both);
  AddSums(part, &both);
  return both;
}

double DescribeState(const OnlineRow& state, absl::Span<const double> sinks,
                     RowStatistics* statistics) {
  *statistics = RowStatistics{};
  if (state.visible == 0) {
    statistics->lse_with_sink = LseOfSinks(sinks);
    return 0;
  }
  if (state.has_nan || std::isinf(state.max)) {
    *statistics = SpoiledStatistics(RowRange<float>{.min = state.min,
                                                    .max = state.max,
                                                    .visible = state.visible,
                                                    .has_nan = state.has_nan});
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    DescribeMoments(state, kNaN, statistics);
    return kNaN;
  }
  statistics->visible_keys = state.visible;
  statistics->logit_min = static_cast<double>(state.min);
  statistics->logit_max = static_cast<double>(state.max);
  const double factor = DescribeSoftmax(
      {static_cast<double>(state.max), state.sum, state.weighted}, sinks,
      statistics);
  DescribeMoments(state, factor, statistics);
  // The weight of a key is a float.
  statistics->top_key = static_cast<float>(factor) > 0 ? state.top_key : -1;
  return factor;
}

}  // namespace attn
