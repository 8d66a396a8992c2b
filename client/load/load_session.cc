#include "client/load/load_session.h"

#include <utility>

#include "absl/time/clock.h"

namespace attn {
namespace {

// Thread-compatible.
class LoadSession {
 public:
  LoadSession(ServerTarget& target, LoadTimer& timer, LoadObserver& observer,
              LoadReport& report, const std::stop_token& stop)
      : target_(target),
        timer_(timer),
        observer_(observer),
        report_(report),
        stop_(stop) {}

  // Is a step of the report.
  absl::Status RunStep(const LoadOptions& options) {
    auto result = Run(options, /*is_probe=*/false);
    if (!result.ok()) return result.status();
    report_.steps.push_back({.options = options,
                             .result = *std::move(result),
                             .verification = target_.FinishVerification(),
                             .sessions = std::move(sessions_)});
    observer_.StepEnds(report_);
    return absl::OkStatus();
  }

  absl::StatusOr<LoadResult> RunProbe(const LoadOptions& options) {
    // What is verified of it counts with the first step: a wrong answer is one.
    auto result = Run(options, /*is_probe=*/true);
    if (result.ok()) observer_.ProbeEnds(*result);
    return result;
  }

 private:
  absl::Status Interrupted() {
    report_.interrupted = true;
    return absl::CancelledError("the load was interrupted");
  }

  absl::StatusOr<LoadResult> Run(const LoadOptions& options, bool is_probe) {
    // A server that is gone would fail every rate there is.
    if (absl::Status status = target_.Probe(); !status.ok()) return status;
    if (stop_.stop_requested()) return Interrupted();
    observer_.RunBegins(report_, options, is_probe);
    absl::Status status = target_.Begin(options, timer_, stop_);
    if (stop_.stop_requested() && !status.ok()) return Interrupted();
    if (!status.ok()) return status;
    LoadResult result =
        RunLoad(options, target_.Call(), timer_, &observer_.monitor(), stop_);
    sessions_ = target_.End();
    if (stop_.stop_requested()) report_.interrupted = true;
    return result;
  }

  ServerTarget& target_;
  LoadTimer& timer_;
  LoadObserver& observer_;
  LoadReport& report_;
  const std::stop_token& stop_;
  // Of the last run.
  std::vector<std::optional<SessionTally>> sessions_;
};

absl::Status RunSearch(const LoadPlan& plan, LoadSession& session,
                       LoadReport& report) {
  auto outcome = SearchKnee(
      plan.steps.front(), *plan.slo, *plan.search,
      [&session](const LoadOptions& probe) { return session.RunProbe(probe); },
      [&](const LoadOptions& step) -> absl::StatusOr<LoadResult> {
        absl::Status status = session.RunStep(step);
        if (!status.ok()) return status;
        return report.steps.back().result;
      });
  if (!outcome.ok()) return outcome.status();
  report.search = ReportedSearch{.options = *plan.search, .outcome = *outcome};
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPlan(const LoadPlan& plan, ServerTarget& target,
                     LoadTimer& timer, LoadObserver& observer,
                     LoadReport& report, const std::stop_token& stop) {
  report.started = absl::Now();
  report.slo = plan.slo;
  report.most_spread = plan.most_spread;
  LoadSession session(target, timer, observer, report, stop);
  if (plan.search.has_value()) return RunSearch(plan, session, report);
  for (const LoadOptions& step : plan.steps) {
    absl::Status status = session.RunStep(step);
    if (!status.ok()) return status;
    if (report.interrupted) break;
  }
  return absl::OkStatus();
}

}  // namespace attn
