// What is told of a load: load_report_text.h, load_report_json.h,
// load_report_csv.h and load_report_html.h say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/answer_verifier.h"
#include "client/load/call_class.h"
#include "client/load/knee_search.h"
#include "client/load/load_result.h"
#include "client/load/load_run.h"
#include "client/load/session_tally.h"
#include "client/load/slo.h"

namespace attn {

struct ReportedPercentile {
  const char* name;
  double percentile;
};
inline constexpr ReportedPercentile kReportedPercentiles[] = {
    {"p50", 50},     {"p90", 90},       {"p99", 99},
    {"p99.9", 99.9}, {"p99.99", 99.99}, {"max", 100},
};

// A class of calls, in words.
struct ReportedClass {
  std::string name;
  double weight = 1;
  // "1,4,4,16,16,32 F32 causal"
  std::string call;
  int payloads = 0;
};

// One run of the loop.
struct LoadStep {
  LoadOptions options;
  LoadResult result;
  // One for each class.
  std::vector<Verification> verification{};
  // One for each class, absent where it has no sessions; empty if none has.
  std::vector<std::optional<SessionTally>> sessions{};

  Verification verified() const;
  // RunFailures(), wrong answers, and SessionFailures().
  std::vector<std::string> Failures(const Slo* slo,
                                    double most_spread = 0) const;
};

// The answer of a search, as it was asked for.
struct ReportedSearch {
  KneeSearchOptions options;
  KneeSearchOutcome outcome;
};

// All runs of a load, and how they were made. Thread-compatible.
struct LoadReport {
  std::string address;
  // When the first run began.
  absl::Time started;
  std::vector<ReportedClass> classes;
  uint64_t seed = 0;
  int connections = 0;
  // How many processes it was merged of.
  int processes = 1;
  std::vector<LoadStep> steps;
  std::optional<Slo> slo{};
  std::optional<ReportedSearch> search{};
  // Of StepSpread::ratio: more fails the load. 0: no bound.
  double most_spread = 0;
  // Whether it was stopped from outside before the plan was done.
  bool interrupted = false;
  // Whether the server went away before the plan was done.
  bool cut_short = false;

  const Slo* slo_or_null() const { return slo.has_value() ? &*slo : nullptr; }
  // The step that the report is about: of those that passed, the one of the
  // highest rate; the last if none did. There must be one.
  size_t MainStep() const;
  // Why the load counts as failed, one line each; empty if it passed. Steps of
  // a search may fail, but for wrong answers.
  std::vector<std::string> Failures() const;
  // What a reader should know beside the figures, one line each.
  std::vector<std::string> Notes() const;
};

std::vector<ReportedClass> Describe(const std::vector<CallClass>& classes);
// "open loop, poisson arrivals at 100/s", "closed loop, 4 callers"
std::string DescribePace(const LoadOptions& options);
// "39 RESOURCE_EXHAUSTED: the queue is full": one line for each code.
std::vector<std::string> ErrorLines(const CallTally& tally);
// "knee: 1840/s keeps to p99=20ms; 1930/s does not", or why there is none.
std::string DescribeKnee(const ReportedSearch& search, const Slo& slo);

}  // namespace attn
