#include "client/load/knee_search.h"

#include <algorithm>

namespace attn {
namespace {

RateRange RangeOf(const LoadOptions& base, const KneeSearchOptions& options) {
  if (options.range.has_value()) return *options.range;
  // Fewer would not make a percentile.
  constexpr double kFewestRequests = 10;
  const double lowest = kFewestRequests / absl::ToDoubleSeconds(base.duration);
  return {.from = std::clamp(lowest, kLowestRate, kHighestRate),
          .to = kHighestRate};
}

LoadOptions ProbeOf(const LoadOptions& base) {
  constexpr absl::Duration kLongest = absl::Seconds(1);
  LoadOptions probe = base;
  probe.rate = 0;
  probe.callers = 1;
  probe.warmup = std::min(base.warmup, kLongest);
  probe.duration = std::min(base.duration, kLongest);
  return probe;
}

// A rate that should hold: half of what a single caller gets, who waits for
// each answer; or the lowest if even that caller's latency is too long.
double StartOf(const LoadResult& probed, const Slo& slo,
               const RateRange& range) {
  const bool holds = RunFailures(probed, &slo).empty();
  return holds ? std::clamp(probed.achieved_rate() / 2, range.from, range.to)
               : range.from;
}

}  // namespace

absl::StatusOr<KneeSearchOutcome> SearchKnee(const LoadOptions& base,
                                             const Slo& slo,
                                             const KneeSearchOptions& options,
                                             const LoadRunner& probe,
                                             const LoadRunner& run) {
  KneeSearchOutcome outcome;
  outcome.range = RangeOf(base, options);
  const auto probed = probe(ProbeOf(base));
  if (!probed.ok()) return probed.status();
  outcome.probed_rate = probed->achieved_rate();
  const auto trial = [&](double rate) -> absl::StatusOr<bool> {
    LoadOptions step = base;
    step.rate = rate;
    const auto result = run(step);
    if (!result.ok()) return result.status();
    return RunFailures(*result, &slo).empty();
  };
  auto rates = SearchRate({.lowest = outcome.range.from,
                           .start = StartOf(*probed, slo, outcome.range),
                           .highest = outcome.range.to,
                           .tolerance = options.tolerance,
                           .most_trials = options.most_runs},
                          trial);
  if (!rates.ok()) return rates.status();
  outcome.rates = *rates;
  return outcome;
}

}  // namespace attn
