// When the requests of an open loop are meant to be sent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace attn {

// A never-ending, non-decreasing series of instants. Thread-compatible.
class ArrivalSchedule {
 public:
  virtual ~ArrivalSchedule() = default;
  // The next instant, in nanoseconds from the start of the run.
  virtual int64_t Next() = 0;
};

enum class Arrivals {
  // One every 1/rate seconds, the first at 0. Does not drift.
  kConstant,
  // Independent users: gaps of exponential distribution with mean 1/rate.
  kPoisson,
};

// "constant" or "poisson".
std::string Name(Arrivals arrivals);
// INVALID_ARGUMENT lists the names.
absl::StatusOr<Arrivals> ParseArrivals(const std::string& name);

// `rate` > 0 per second. The same seed gives the same series.
std::unique_ptr<ArrivalSchedule> MakeArrivals(Arrivals arrivals, double rate,
                                              uint64_t seed);

}  // namespace attn
