#include "client/load/load_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

// "step 2 (200/s): ", or nothing if there is one step.
std::string StepPrefix(const LoadReport& report, size_t step) {
  if (report.steps.size() == 1) return "";
  return absl::StrFormat("step %d (%s): ", step + 1,
                         FormatRate(report.steps[step].options.rate));
}

void AppendMismatches(const LoadStep& step,
                      std::vector<std::string>& failures) {
  const Verification verification = step.verified();
  if (verification.mismatches == 0) return;
  failures.push_back(
      absl::StrFormat("%d of %d verified answers are wrong; the first: %s",
                      verification.mismatches, verification.verified,
                      verification.first_mismatch));
}

// Whether the figures tell more of this machine than of the server.
bool WasLate(const LoadResult& result) {
  const int64_t latency = result.latency.ValueAtPercentile(99);
  return latency > 0 && result.slip.ValueAtPercentile(99) > latency / 2;
}

}  // namespace

Verification LoadStep::verified() const {
  Verification all;
  for (const Verification& one : verification) all.Merge(one);
  return all;
}

std::vector<std::string> LoadStep::Failures(const Slo* slo,
                                            double most_spread) const {
  std::vector<std::string> failures = RunFailures(result, slo);
  AppendMismatches(*this, failures);
  for (const std::optional<SessionTally>& tally : sessions) {
    if (!tally.has_value()) continue;
    for (std::string& failure : SessionFailures(*tally, most_spread)) {
      failures.push_back(std::move(failure));
    }
  }
  return failures;
}

size_t LoadReport::MainStep() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].Failures(slo_or_null(), most_spread).empty()) continue;
    if (!best.has_value() ||
        steps[i].options.rate > steps[*best].options.rate) {
      best = i;
    }
  }
  return best.value_or(steps.size() - 1);
}

std::vector<std::string> LoadReport::Failures() const {
  std::vector<std::string> failures;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::string> of_step;
    if (search.has_value()) {
      AppendMismatches(steps[i], of_step);
    } else {
      of_step = steps[i].Failures(slo_or_null(), most_spread);
    }
    for (const std::string& failure : of_step) {
      failures.push_back(absl::StrCat(StepPrefix(*this, i), failure));
    }
  }
  if (search.has_value() && !search->outcome.rates.held.has_value()) {
    failures.push_back(DescribeKnee(*search, *slo));
  }
  if (interrupted) {
    failures.push_back("it was interrupted before its plan was done");
  }
  if (cut_short) {
    failures.push_back(absl::StrCat("the server was gone after ", steps.size(),
                                    steps.size() == 1 ? " step" : " steps"));
  }
  return failures;
}

std::vector<std::string> LoadReport::Notes() const {
  size_t late = 0;
  int64_t slip = 0;
  int64_t clipped = 0;
  int64_t skipped = 0;
  for (const LoadStep& step : steps) {
    clipped += step.result.latency.clipped();
    skipped += step.verified().skipped;
    if (!WasLate(step.result)) continue;
    ++late;
    slip = std::max(slip, step.result.slip.ValueAtPercentile(99));
  }
  std::vector<std::string> notes;
  if (late > 0) {
    notes.push_back(absl::StrCat(
        "more than half of the latency at p99 is this program's own: requests "
        "were sent up to ",
        FormatNanos(static_cast<double>(slip)), " late at p99",
        steps.size() == 1
            ? ""
            : absl::StrCat(", in ", late, " of ", steps.size(), " steps")));
  }
  if (clipped > 0) {
    notes.push_back(absl::StrCat(clipped, " latencies were above an hour"));
  }
  if (skipped > 0) {
    notes.push_back(
        absl::StrCat(skipped,
                     " answers came too fast to be verified; a higher "
                     "--verify-every takes fewer"));
  }
  return notes;
}

std::vector<ReportedClass> Describe(const std::vector<CallClass>& classes) {
  std::vector<ReportedClass> described;
  for (const CallClass& one : classes) {
    described.push_back({.name = one.name,
                         .weight = one.weight,
                         .call = one.call.ToString(),
                         .payloads = one.payloads});
  }
  return described;
}

std::string DescribePace(const LoadOptions& options) {
  return options.open()
             ? absl::StrFormat("open loop, %s arrivals at %s",
                               Name(options.arrivals), FormatRate(options.rate))
             : absl::StrFormat("closed loop, %d caller%s", options.callers,
                               options.callers == 1 ? "" : "s");
}

std::vector<std::string> ErrorLines(const CallTally& tally) {
  std::vector<std::string> lines;
  for (const auto& [code, count] : tally.errors) {
    std::string line = absl::StrCat(count, " ", absl::StatusCodeToString(code));
    const auto said = tally.first_errors.find(code);
    if (said != tally.first_errors.end() && !said->second.empty()) {
      absl::StrAppend(&line, ": ", said->second);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string DescribeKnee(const ReportedSearch& search, const Slo& slo) {
  const RateSearchOutcome& rates = search.outcome.rates;
  const std::string bounds = slo.ToString();
  if (!rates.held.has_value()) {
    return rates.converged
               ? absl::StrFormat("no knee: even %s does not keep to %s",
                                 FormatRate(*rates.failed), bounds)
               : absl::StrFormat(
                     "no knee: none of %d rates, down to %s, keeps to %s",
                     rates.trials, FormatRate(*rates.failed), bounds);
  }
  if (!rates.failed.has_value()) {
    return absl::StrFormat(
        "knee: at or above %s, which keeps to %s; "
        "nothing higher was tried",
        FormatRate(*rates.held), bounds);
  }
  return absl::StrFormat(
      "knee: %s keeps to %s; %s does not%s", FormatRate(*rates.held), bounds,
      FormatRate(*rates.failed),
      rates.converged ? "" : " (stopped before the tolerance was reached)");
}

}  // namespace attn
