// The engine of the load tester: decides when calls start and measures them.
// It knows nothing of the network: the call and the time are given to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/arrival_schedule.h"
#include "client/load/load_monitor.h"
#include "client/load/load_result.h"
#include "client/load/load_timer.h"

namespace attn {

struct LoadOptions {
  // Open loop: requests per second, sent on schedule whatever the server does.
  // 0: closed loop.
  double rate = 0;
  Arrivals arrivals = Arrivals::kPoisson;
  // Of the arrivals and of the mix.
  uint64_t seed = 0;
  // How often each class of a mixed load is sent; empty: there is one.
  std::vector<double> weights{};
  // Closed loop: callers that each wait for their answer before they send
  // again.
  int callers = 1;
  // Length of the measured window.
  absl::Duration duration = absl::Seconds(10);
  // Load before the window, which is not measured: connections, caches and
  // clock speeds settle.
  absl::Duration warmup = absl::Seconds(1);
  // An open loop holds requests back beyond this many calls in flight, to
  // bound memory. The wait counts in their latency and is reported.
  int max_in_flight = 4096;

  bool open() const { return rate > 0; }
};

// The server's own split of one call.
struct ServerTimes {
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
};

struct CallOutcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  // What a failed call said.
  std::string message{};
  // The google.rpc.ErrorInfo reason of a failed call; empty: it had none.
  std::string reason{};
  // Absent if the answer does not say.
  std::optional<ServerTimes> server{};
};

using CallDone = std::function<void(const CallOutcome&)>;

// Which call is to be made.
struct LoadRequest {
  // From 0 on.
  int64_t sequence = 0;
  // Index into LoadOptions::weights; 0 if there are none.
  size_t call_class = 0;
  // When it was meant to be sent, by the run's timer; in a closed loop, when it
  // was.
  int64_t intended = 0;
  // Whether it is of the window.
  bool measured = false;
};

// Starts a call and returns at once; calls `done` exactly once, on any thread.
// Every call must end by itself (it has a deadline): a run waits for the last.
using LoadCall = std::function<void(const LoadRequest& request, CallDone done)>;

// Runs the load and waits for all answers. Uses the calling thread to send and
// blocks it. `monitor`, unless null, can look at the run meanwhile. When `stop`
// is requested nothing more is sent: the window ends there.
LoadResult RunLoad(const LoadOptions& options, const LoadCall& call,
                   LoadTimer& timer, LoadMonitor* monitor = nullptr,
                   const std::stop_token& stop = {});

}  // namespace attn
