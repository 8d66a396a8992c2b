// How long a call takes: many short windows, of which the shortest is the
// quietest.
#pragma once

#include <functional>

namespace attn {

// A value; thread-compatible.
struct TimedRuns {
  double median_ms = 0;
  double best_ms = 0;
  int runs = 0;
};

// Runs for about `budget_seconds`, after a few unmeasured runs. A window holds
// so many runs that it lasts 0.2 ms. Peers are measured by the same rule.
TimedRuns TimeRuns(double budget_seconds, const std::function<void()>& run);

}  // namespace attn
