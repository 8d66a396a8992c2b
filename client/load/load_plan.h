// The rates of an open loop, one step after the other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load_run.h"

namespace attn {

// What a rate may be, in requests per second.
inline constexpr double kLowestRate = 1e-3;
inline constexpr double kHighestRate = 1e6;
// Each step keeps its histograms.
inline constexpr int kMostSteps = 100;

// "100,200,400": rates in this order. INVALID_ARGUMENT names --steps.
absl::StatusOr<std::vector<double>> ParseSteps(const std::string& text);

// "100:500:5": COUNT rates from FROM to TO at equal distances, up or down.
// INVALID_ARGUMENT names --ramp.
absl::StatusOr<std::vector<double>> ParseRamp(const std::string& text);

// "100:5000": a lower and a higher rate. INVALID_ARGUMENT names `flag`.
struct RateRange {
  double from = 0;
  double to = 0;
};
absl::StatusOr<RateRange> ParseRateRange(const std::string& text,
                                         const std::string& flag);

// A step for each rate; all else as in `base`.
std::vector<LoadOptions> PlanSteps(const LoadOptions& base,
                                   const std::vector<double>& rates);

}  // namespace attn
