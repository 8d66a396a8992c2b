#include "tests/bench/timed_runs.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr double kWindowSeconds = 2e-4;
constexpr double kWarmUpSeconds = 0.1;

double SecondsOf(int runs, const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) run();
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  return time.count() / runs;
}

}  // namespace

TimedRuns TimeRuns(double budget_seconds, const std::function<void()>& run) {
  // The first run takes memory and fills caches.
  run();
  const double once = std::max(SecondsOf(1, run), 1e-9);
  const int unmeasured = std::min(20, static_cast<int>(kWarmUpSeconds / once));
  for (int i = 0; i < unmeasured; ++i) run();
  const int in_window = std::max(1, static_cast<int>(kWindowSeconds / once));
  const int fewest = once > 1 ? 1 : 3;
  const int windows = std::clamp(
      static_cast<int>(budget_seconds / (once * in_window)), fewest, 2000);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(windows));
  for (int i = 0; i < windows; ++i) {
    times.push_back(1e3 * SecondsOf(in_window, run));
  }
  return {.median_ms = Median(times),
          .best_ms = *std::min_element(times.begin(), times.end()),
          .runs = windows};
}

}  // namespace attn
