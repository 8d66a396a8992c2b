// The knee of a server: the highest open-loop rate at which it keeps to an SLO.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "client/load/load_plan.h"
#include "client/load/load_run.h"
#include "client/load/rate_search.h"
#include "client/load/slo.h"

namespace attn {

struct KneeSearchOptions {
  // Absent: from ten requests in a window to kHighestRate.
  std::optional<RateRange> range{};
  double tolerance = 0.05;
  int most_runs = 20;
};

struct KneeSearchOutcome {
  RateSearchOutcome rates;
  // Where the rates could lie.
  RateRange range;
  // What one caller at a time achieved before the search.
  double probed_rate = 0;
};

// Runs one load; an error ends the search.
using LoadRunner =
    std::function<absl::StatusOr<LoadResult>(const LoadOptions& options)>;

// `probe` runs a short closed loop of one caller, to know where to start, and
// `run` the open loops of the search: `base` at other rates, each with its
// warm-up. A rate holds if RunFailures() has nothing to say.
absl::StatusOr<KneeSearchOutcome> SearchKnee(const LoadOptions& base,
                                             const Slo& slo,
                                             const KneeSearchOptions& options,
                                             const LoadRunner& probe,
                                             const LoadRunner& run);

}  // namespace attn
