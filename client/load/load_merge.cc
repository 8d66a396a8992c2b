#include "client/load/load_merge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// In what the two differ; "" if they can be merged.
std::string DifferenceOf(const LoadStep& a, const LoadStep& b) {
  const LoadOptions& x = a.options;
  const LoadOptions& y = b.options;
  if (x.open() != y.open()) return "loop";
  if (x.open() && x.arrivals != y.arrivals) return "arrivals";
  if (x.duration != y.duration) return "duration";
  if (x.warmup != y.warmup) return "warm-up";
  return "";
}

std::string DifferenceOf(const LoadReport& a, const LoadReport& b) {
  if (a.steps.size() != b.steps.size()) return "number of steps";
  if (a.classes.size() != b.classes.size()) return "number of classes";
  for (size_t i = 0; i < a.classes.size(); ++i) {
    const ReportedClass& x = a.classes[i];
    const ReportedClass& y = b.classes[i];
    if (x.name != y.name || x.call != y.call || x.weight != y.weight) {
      return absl::StrCat("class ", x.name);
    }
  }
  const std::string slo_a = a.slo.has_value() ? a.slo->ToString() : "";
  const std::string slo_b = b.slo.has_value() ? b.slo->ToString() : "";
  if (slo_a != slo_b) return "SLO";
  for (size_t i = 0; i < a.steps.size(); ++i) {
    std::string difference = DifferenceOf(a.steps[i], b.steps[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

void Add(const LoadStep& from, LoadStep& to) {
  to.options.rate += from.options.rate;
  // Of an open loop it means nothing.
  if (!to.options.open()) to.options.callers += from.options.callers;
  to.options.max_in_flight += from.options.max_in_flight;
  to.result.Merge(from.result);
  for (size_t i = 0; i < to.result.classes.size(); ++i) {
    to.result.classes[i].Merge(from.result.classes[i]);
  }
  for (size_t i = 0; i < to.verification.size(); ++i) {
    to.verification[i].Merge(from.verification[i]);
  }
  to.result.slip.Merge(from.result.slip);
  to.result.warmup_requests += from.result.warmup_requests;
  to.result.cpu_seconds += from.result.cpu_seconds;
}

}  // namespace

absl::StatusOr<LoadReport> MergeReports(
    std::vector<std::pair<std::string, LoadReport>> reports) {
  if (reports.empty()) {
    return FieldError("--merge", "no file", "one or more");
  }
  LoadReport merged = std::move(reports.front().second);
  for (LoadStep& step : merged.steps) step.result.timeline.clear();
  for (size_t i = 1; i < reports.size(); ++i) {
    const LoadReport& other = reports[i].second;
    const std::string difference = DifferenceOf(merged, other);
    if (!difference.empty()) {
      return FieldError(reports[i].first, absl::StrCat("another ", difference),
                        absl::StrCat("that of ", reports.front().first));
    }
    merged.processes += other.processes;
    merged.started = std::min(merged.started, other.started);
    for (size_t step = 0; step < merged.steps.size(); ++step) {
      Add(other.steps[step], merged.steps[step]);
    }
  }
  return merged;
}

}  // namespace attn
