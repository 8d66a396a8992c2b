// Runs a plan against a server, step by step, into a report.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "client/load/knee_search.h"
#include "client/load/load_report.h"
#include "client/load/load_run.h"
#include "client/load/server_target.h"
#include "client/load/slo.h"

namespace attn {

// A list of steps, or a search that drives runs. A value.
struct LoadPlan {
  // One or more; of a search, the one run whose rate is looked for.
  std::vector<LoadOptions> steps;
  std::optional<Slo> slo{};
  // Needs an SLO.
  std::optional<KneeSearchOptions> search{};
  // Of LoadReport.
  double most_spread = 0;
};

// Hears of a session; called on the thread that runs it. Thread-compatible.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  // A run is about to begin. A probe is no step of the report.
  virtual void RunBegins(const LoadReport& report, const LoadOptions& run,
                         bool is_probe) = 0;
  virtual void ProbeEnds(const LoadResult& result) = 0;
  // A step is over: the report's last.
  virtual void StepEnds(const LoadReport& report) = 0;
  // For looks at the run while it goes on.
  virtual LoadMonitor& monitor() = 0;
};

// Fills `report`, which says beforehand who is asked for what. An error says
// that the server is gone, or does not take the calls; what failed under load
// is a result. When `stop` is requested the run that goes on ends, as a step of
// the report, and no other begins.
absl::Status RunPlan(const LoadPlan& plan, ServerTarget& target,
                     LoadTimer& timer, LoadObserver& observer,
                     LoadReport& report, const std::stop_token& stop = {});

}  // namespace attn
