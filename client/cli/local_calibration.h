// The kernels of this machine against each other: is the engine's choice right?
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attn {

// One kind of call. A value; thread-compatible.
struct CalibrationRow {
  // "1,8,8,512,512,64 F32 causal"
  std::string call;
  std::string chosen;
  // Shortest processor time of each kernel that computes the call.
  std::map<std::string, absl::Duration> times;

  const std::string& Fastest() const;
  // Time of the chosen kernel over that of the fastest, 1 or more.
  double Loss() const;
};

// A choice that loses less is right: so much do times differ between runs.
inline constexpr double kToleratedLoss = 1.05;

// How many of all calls are done, and which is next.
using CalibrationWatch =
    std::function<void(int64_t done, int64_t all, const std::string& call)>;

// Computes calls of every kind that the engine chooses by, `budget` of time for
// each kernel and call, on one thread, all but by the reference. Blocks.
// Calls `watch`, if there is one, before each call.
absl::StatusOr<std::vector<CalibrationRow>> Calibrate(
    absl::Duration budget, const CalibrationWatch& watch = nullptr);

// What the engine calls machines such as this one.
std::string LocalCpuClass();

}  // namespace attn
