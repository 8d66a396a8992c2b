// A look at a run while it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

namespace attn {

// What a run has measured so far.
struct LoadProgress {
  bool warming_up = false;
  // Until the window ends; 0 while the last answers are waited for.
  double seconds_left = 0;
  // Of the window: its part that has passed, and what happened in it.
  double window_seconds = 0;
  int64_t offered = 0;
  int64_t answered = 0;
  int64_t errors = 0;
  int64_t in_flight = 0;
  // Of the latency from the intended send, in nanoseconds; 0 without answers.
  int64_t p99 = 0;
};

// Thread-safe.
class LoadMonitor {
 public:
  // Absent while no run goes on. Holds the run up for about a microsecond.
  std::optional<LoadProgress> Look() const;

  // For runs: `look` is called, one call at a time, until End() returns.
  void Begin(std::function<LoadProgress()> look);
  void End();

 private:
  mutable std::mutex mutex_;
  std::function<LoadProgress()> look_;
};

}  // namespace attn
