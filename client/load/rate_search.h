// Finds the highest rate that holds: grows until one fails, then bisects.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace attn {

struct RateSearchOptions {
  // Requests per second: 0 < lowest <= start <= highest.
  double lowest = 1;
  double start = 1;
  double highest = 1;
  // Ends when the lowest rate that failed is within this share of the highest
  // that held.
  double tolerance = 0.05;
  // An upper bound of what the search may take.
  int most_trials = 20;
};

struct RateSearchOutcome {
  // The highest rate that held; absent if even the lowest did not, or if the
  // trials ran out before one held.
  std::optional<double> held{};
  // The lowest rate above it that failed; absent if the highest held.
  std::optional<double> failed{};
  int trials = 0;
  // Whether the answer is as exact as was asked for.
  bool converged = false;
};

// Whether a rate holds; an error ends the search.
using RateTrial = std::function<absl::StatusOr<bool>(double rate)>;

absl::StatusOr<RateSearchOutcome> SearchRate(const RateSearchOptions& options,
                                             const RateTrial& trial);

}  // namespace attn
