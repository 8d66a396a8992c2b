// Gives memory back to the system when nobody has asked for anything for a
// while.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/security/periodic_task.h"

namespace attn {

// What a process is seen to do. A value.
struct ProcessLoad {
  // Requests that are here, and time that all requests so far were computed.
  int64_t requests = 0;
  absl::Duration computed;
  int64_t resident_bytes = 0;
};

// Tells from a look now and then whether it is time. Thread-compatible.
class IdleWatch {
 public:
  // True: nobody is here, nothing was computed since the last look, and since
  // the last Trimmed() somebody was here or memory has grown.
  bool Look(const ProcessLoad& load);
  void Trimmed(const ProcessLoad& load) { least_bytes_ = load.resident_bytes; }

 private:
  absl::Duration computed_;
  int64_t least_bytes_ = 0;
};

// Looks once every `delay`: memory goes back one to two delays after the last
// request. Thread-safe.
class IdleTrimmer {
 public:
  // Calls both on a thread of its own. `delay` > 0.
  IdleTrimmer(absl::Duration delay, std::function<ProcessLoad()> load,
              std::function<void()> trim);

 private:
  void Look();

  const std::function<ProcessLoad()> load_;
  const std::function<void()> trim_;
  // Of the thread that looks.
  IdleWatch watch_;
  // Begins last and ends first; waits for a `trim` that runs.
  PeriodicTask looks_;
};

}  // namespace attn
