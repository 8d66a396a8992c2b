#include "client/cli/load_presenter.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/load_report_text.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

constexpr std::chrono::milliseconds kLookEvery{200};

std::string PaceInShort(const LoadOptions& run) {
  return run.open() ? FormatRate(run.rate)
                    : absl::StrFormat("%d callers", run.callers);
}

// Of a table that is printed row by row.
std::string PlanInWords(const LoadPlan& plan) {
  const LoadOptions& run = plan.steps.front();
  const std::string each = absl::StrFormat("each %s after %s of warm-up",
                                           absl::FormatDuration(run.duration),
                                           absl::FormatDuration(run.warmup));
  if (plan.search.has_value()) {
    return absl::StrFormat(
        "search for the highest rate that keeps to %s within %g %%: at most "
        "%d runs, %s",
        plan.slo->ToString(), 100 * plan.search->tolerance,
        plan.search->most_runs, each);
  }
  return absl::StrFormat("%d steps of an open loop, %s arrivals, %s",
                         plan.steps.size(), Name(run.arrivals), each);
}

}  // namespace

std::string DescribeProgress(const std::string& step,
                             const LoadProgress& progress) {
  std::string text = step;
  if (progress.warming_up) return absl::StrCat(text, "  warming up");
  if (progress.seconds_left > 0) {
    absl::StrAppendFormat(&text, "  %.0f s left",
                          std::ceil(progress.seconds_left));
  } else {
    absl::StrAppend(&text, "  waiting for ", progress.in_flight, " answers");
  }
  if (progress.window_seconds > 0) {
    absl::StrAppendFormat(
        &text, "  %.1f/s answered",
        static_cast<double>(progress.answered) / progress.window_seconds);
  }
  if (progress.p99 > 0) {
    absl::StrAppend(&text, "  p99 ",
                    FormatNanos(static_cast<double>(progress.p99)));
  }
  if (progress.errors > 0) {
    absl::StrAppend(&text, "  ", progress.errors, " errors");
  }
  return text;
}

LoadPresenter::LoadPresenter(const LoadPlan& plan, bool rows)
    : plan_(plan),
      rows_(rows),
      many_(plan.steps.size() > 1 || plan.search.has_value()) {
  if (ErrorTerminal().write) watcher_ = std::thread([this] { Watch(); });
}

LoadPresenter::~LoadPresenter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    stopped_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void LoadPresenter::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped_.wait_for(lock, kLookEvery, [this] { return stop_; })) {
    const auto progress = monitor_.Look();
    if (progress.has_value()) line_.Show(DescribeProgress(step_, *progress));
  }
}

void LoadPresenter::Print(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  line_.Clear();
  if (!prints_rows()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void LoadPresenter::RunBegins(const LoadReport& report, const LoadOptions& run,
                              bool is_probe) {
  if (!headed_) Print(LoadReportHead(report, PlanInWords(plan_)));
  headed_ = true;
  const size_t number = report.steps.size() + 1;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_probe) {
    step_ = "probe";
  } else if (plan_.search.has_value()) {
    step_ = absl::StrCat("run ", number);
  } else {
    step_ = absl::StrCat("step ", number, "/", plan_.steps.size());
  }
  absl::StrAppend(&step_, "  ", PaceInShort(run));
}

void LoadPresenter::ProbeEnds(const LoadResult& result) {
  Print(absl::StrFormat(
      "one caller at a time: %.1f/s, p99 %s\n\n", result.achieved_rate(),
      FormatNanos(static_cast<double>(result.latency.ValueAtPercentile(99)))));
}

void LoadPresenter::StepEnds(const LoadReport& report) {
  const size_t last = report.steps.size() - 1;
  Print(absl::StrCat(last == 0 ? StepHeading() : "", StepRows(report, last)));
}

}  // namespace attn
