#include "client/cli/load_flags.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/choices.h"
#include "client/io/file.h"
#include "client/library/float_dtype.h"
#include "client/load/load_plan.h"
#include "client/load/mix_profile.h"
#include "client/load/time_text.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr const char* kPaces[] = {"--rate", "--closed", "--steps", "--ramp"};

constexpr char kCallGroup[] = "What is sent";
constexpr char kSessionGroup[] = "What is sent, to sessions";
constexpr char kPaceGroup[] = "How often: one of";
constexpr char kRunGroup[] = "How it is run";
constexpr char kSloGroup[] = "What must hold";
constexpr char kReportGroup[] = "Where it is told";

void AddCallFlags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--shape", flags.shape, "B,Hq,Hkv,Sq,Sk,D[,Dv]")
      ->capture_default_str()
      ->group(kCallGroup);
  command.add_option("--dtype", flags.dtype, "Type of the tensors")
      ->transform(OneOf(FloatNames()))
      ->capture_default_str()
      ->group(kCallGroup);
  command
      .add_flag("--causal", flags.causal, "Causal mask, aligned bottom right")
      ->group(kCallGroup);
  command
      .add_option("--payloads", flags.payloads,
                  "Different sets of tensors that take turns")
      ->check(CLI::Range(1, kMostPayloads))
      ->capture_default_str()
      ->group(kCallGroup);
  command
      .add_option("--profile", flags.profile,
                  "Instead: a mix of calls from a JSON file, see "
                  "client/load/README.md")
      ->type_name(kFileType)
      ->group(kCallGroup);
  command
      .add_option("--seed", flags.seed,
                  "Of the tensors, the arrivals and the mix")
      ->capture_default_str()
      ->group(kCallGroup);
}

void AddPaceFlags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--rate", flags.rate, "Open loop: requests per second")
      ->check(CLI::Range(kLowestRate, kHighestRate))
      ->group(kPaceGroup);
  command
      .add_option("--closed", flags.closed,
                  "Closed loop: callers that wait for their answers")
      ->check(CLI::Range(1, 100'000))
      ->group(kPaceGroup);
  command
      .add_option("--steps", flags.steps,
                  "Open loop, one rate after the other: 100,200,400")
      ->group(kPaceGroup);
  command
      .add_option("--ramp", flags.ramp,
                  "FROM:TO:COUNT: COUNT rates at equal distances")
      ->group(kPaceGroup);
}

void AddRunFlags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--arrivals", flags.arrivals, "Of an open loop")
      ->transform(OneOf({"poisson", "constant"}))
      ->capture_default_str()
      ->group(kRunGroup);
  command
      .add_option("--duration", flags.duration,
                  "Of the measured window, of each step")
      ->capture_default_str()
      ->group(kRunGroup);
  command
      .add_option("--warmup", flags.warmup, "Load before each, not measured")
      ->capture_default_str()
      ->group(kRunGroup);
  command
      .add_option("--connections", flags.connections,
                  "Connections that calls take turns on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(kRunGroup);
  command
      .add_option("--max-in-flight", flags.max_in_flight,
                  "Open loop: hold requests back beyond so many calls")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group(kRunGroup);
  command
      .add_option("--verify-every", flags.verify_every,
                  "Verify each n-th round of payloads; 0: none")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str()
      ->group(kRunGroup);
}

void AddSloFlags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("--slo", flags.slo,
                  "p99=20ms[,max=1s...]: with a rate, whether it holds; "
                  "without one, search for the highest rate that does")
      ->group(kSloGroup);
  command
      .add_option("--slo-range", flags.slo_range,
                  "Search from FROM:TO requests per second")
      ->group(kSloGroup);
  command
      .add_option("--slo-tolerance", flags.slo_tolerance,
                  "Search until held and failed rates are so close")
      ->capture_default_str()
      ->group(kSloGroup);
  command.add_option("--slo-runs", flags.slo_runs, "Most runs of a search")
      ->check(CLI::Range(1, kMostSteps))
      ->capture_default_str()
      ->group(kSloGroup);
}

void AddReportFlags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--csv", flags.csv, "Write a row for each step and class")
      ->type_name(kFileType)
      ->group(kReportGroup);
  command.add_option("--html", flags.html, "Write a page with plots")
      ->type_name(kFileType)
      ->group(kReportGroup);
  command
      .add_option("--histogram-out", flags.histogram_out,
                  "Write all histograms, for --merge")
      ->type_name(kFileType)
      ->group(kReportGroup);
  command
      .add_option("--merge", flags.merge,
                  "Run nothing: report what several processes wrote by "
                  "--histogram-out")
      ->delimiter(',')
      ->type_name(kFileType)
      ->group(kReportGroup);
}

// FieldError if `flag` was given: it makes no sense beside `beside`.
absl::Status Refuse(const LoadFlags& flags, const std::string& flag,
                    const std::string& beside, const std::string& why) {
  if (!flags.given.contains(flag)) return absl::OkStatus();
  return FieldError(flag, absl::StrCat("a value ", beside),
                    absl::StrCat("none: ", why));
}

absl::Status RefuseEach(const LoadFlags& flags,
                        const std::vector<std::string>& refused,
                        const std::string& beside, const std::string& why) {
  for (const std::string& flag : refused) {
    absl::Status status = Refuse(flags, flag, beside, why);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckPace(const LoadFlags& flags) {
  std::string first;
  for (const char* flag : kPaces) {
    if (!flags.given.contains(flag)) continue;
    if (!first.empty()) {
      return FieldError(flag, absl::StrCat("a value beside ", first),
                        "one of --rate, --closed, --steps and --ramp");
    }
    first = flag;
  }
  if (first.empty() && !flags.given.contains("--slo")) {
    return FieldError("--rate", "neither it nor another pace",
                      "--rate 100, --closed 4, --steps 100,200, --ramp "
                      "100:500:5, or --slo p99=20ms to search for the rate");
  }
  return absl::OkStatus();
}

bool Searches(const LoadFlags& flags) {
  const bool paced =
      std::any_of(std::begin(kPaces), std::end(kPaces),
                  [&](const char* flag) { return flags.given.contains(flag); });
  return flags.given.contains("--slo") && !paced;
}

absl::Status CheckCombinations(const LoadFlags& flags) {
  absl::Status status = CheckPace(flags);
  if (status.ok() && flags.given.contains("--closed")) {
    status = RefuseEach(flags, {"--arrivals", "--max-in-flight"},
                        "beside --closed", "they are of an open loop");
    if (status.ok()) {
      status = Refuse(flags, "--slo", "beside --closed",
                      "a closed loop hides stalls from its latency");
    }
  }
  if (status.ok() && !Searches(flags)) {
    status = RefuseEach(flags, {"--slo-range", "--slo-tolerance", "--slo-runs"},
                        "without a search",
                        "a search is --slo without --rate, --closed, --steps "
                        "and --ramp");
  }
  if (status.ok() && Searches(flags)) {
    status = Refuse(flags, "--histogram-out", "beside a search",
                    "processes that search on their own cannot be merged; "
                    "give them --rate or --steps");
  }
  if (status.ok() && flags.given.contains("--profile")) {
    std::vector<std::string> refused = LoadSessionFlagNames();
    refused.insert(refused.end(),
                   {"--shape", "--dtype", "--causal", "--payloads"});
    status = RefuseEach(flags, refused, "beside --profile",
                        "the profile's classes say it");
  }
  return status;
}

absl::StatusOr<std::vector<CallClass>> ReadClasses(const LoadFlags& flags) {
  if (flags.given.contains("--profile")) {
    constexpr int64_t kMostProfileBytes = 16 << 20;
    const auto text = ReadFile(flags.profile, kMostProfileBytes);
    if (!text.ok()) return text.status();
    return ParseMixProfile(*text, flags.profile, flags.seed);
  }
  auto shape = ParseCallShape(flags.shape);
  if (!shape.ok()) return shape.status();
  auto dtype = ParseFloatDType(flags.dtype, "--dtype");
  if (!dtype.ok()) return dtype.status();
  CallClass one;
  one.call.shape = *shape;
  one.call.dtype = *dtype;
  one.call.causal = flags.causal;
  one.call.seed = flags.seed;
  one.payloads = flags.payloads;
  absl::Status status =
      ReadLoadSessionFlags(flags.sessions, flags.given, one.call);
  if (!status.ok()) return status;
  return std::vector<CallClass>{one};
}

absl::StatusOr<LoadOptions> ReadRun(const LoadFlags& flags) {
  LoadOptions options;
  options.rate = flags.rate;
  options.callers = flags.closed;
  options.seed = flags.seed;
  options.max_in_flight = flags.max_in_flight;
  auto arrivals = ParseArrivals(flags.arrivals);
  if (!arrivals.ok()) return arrivals.status();
  options.arrivals = *arrivals;
  auto duration =
      ParseLength(flags.duration, "--duration", absl::Milliseconds(1));
  if (!duration.ok()) return duration.status();
  options.duration = *duration;
  auto warmup = ParseLength(flags.warmup, "--warmup", absl::ZeroDuration());
  if (!warmup.ok()) return warmup.status();
  options.warmup = *warmup;
  return options;
}

// "5%", "5": percent.
absl::StatusOr<double> ReadTolerance(const std::string& text) {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 100;
  double percent = 0;
  if (!absl::SimpleAtod(absl::StripSuffix(text, "%"), &percent) ||
      !(percent >= kLeast && percent <= kMost)) {
    return FieldError("--slo-tolerance", absl::StrCat("\"", text, "\""),
                      "a percentage from 0.1% to 100%");
  }
  return percent / 100;
}

absl::StatusOr<KneeSearchOptions> ReadSearch(const LoadFlags& flags) {
  KneeSearchOptions search;
  search.most_runs = flags.slo_runs;
  auto tolerance = ReadTolerance(flags.slo_tolerance);
  if (!tolerance.ok()) return tolerance.status();
  search.tolerance = *tolerance;
  if (flags.given.contains("--slo-range")) {
    auto range = ParseRateRange(flags.slo_range, "--slo-range");
    if (!range.ok()) return range.status();
    search.range = *range;
  }
  return search;
}

absl::StatusOr<LoadPlan> ReadPlan(const LoadFlags& flags) {
  auto run = ReadRun(flags);
  if (!run.ok()) return run.status();
  LoadPlan plan{.steps = {*run}};
  if (flags.given.contains("--steps") || flags.given.contains("--ramp")) {
    const auto rates = flags.given.contains("--steps") ? ParseSteps(flags.steps)
                                                       : ParseRamp(flags.ramp);
    if (!rates.ok()) return rates.status();
    plan.steps = PlanSteps(*run, *rates);
  }
  if (flags.given.contains("--slo")) {
    auto slo = ParseSlo(flags.slo);
    if (!slo.ok()) return slo.status();
    plan.slo = *std::move(slo);
  }
  plan.most_spread = flags.sessions.most_spread;
  if (Searches(flags)) {
    auto search = ReadSearch(flags);
    if (!search.ok()) return search.status();
    plan.search = *search;
  }
  return plan;
}

}  // namespace

void AddLoadFlags(CLI::App& command, LoadFlags& flags) {
  AddCallFlags(command, flags);
  AddLoadSessionFlags(command, flags.sessions, kSessionGroup);
  AddPaceFlags(command, flags);
  AddRunFlags(command, flags);
  AddSloFlags(command, flags);
  AddMostSpreadFlag(command, flags.sessions, kSloGroup);
  AddReportFlags(command, flags);
}

void NoteGivenFlags(const CLI::App& command, LoadFlags& flags) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) flags.given.insert(option->get_name());
  }
}

absl::StatusOr<LoadJob> ReadLoadFlags(const LoadFlags& flags) {
  absl::Status status = CheckCombinations(flags);
  if (!status.ok()) return status;
  auto plan = ReadPlan(flags);
  if (!plan.ok()) return plan.status();
  auto classes = ReadClasses(flags);
  if (!classes.ok()) return classes.status();
  status = CheckSessionUses(flags.given, *classes);
  if (!status.ok()) return status;
  for (LoadOptions& step : plan->steps) {
    for (const CallClass& one : *classes) step.weights.push_back(one.weight);
  }
  return LoadJob{.classes = *std::move(classes), .plan = *std::move(plan)};
}

absl::Status CheckMergeFlags(const LoadFlags& flags) {
  for (const std::string& flag : flags.given) {
    const bool fits = flag == "--merge" || flag == "--csv" ||
                      flag == "--html" || flag == "--histogram-out";
    if (fits) continue;
    return FieldError(flag, "a value beside --merge",
                      "none: the files say how the load was run");
  }
  return absl::OkStatus();
}

absl::Status CheckReportFiles(const LoadFlags& flags) {
  std::set<std::string> paths;
  const std::pair<const char*, const std::string&> files[] = {
      {"--csv", flags.csv},
      {"--html", flags.html},
      {"--histogram-out", flags.histogram_out}};
  for (const auto& [flag, path] : files) {
    if (!flags.given.contains(flag)) continue;
    if (!paths.insert(path).second) {
      return FieldError(flag, absl::StrCat("\"", path, "\" again"),
                        "a file of its own for each report");
    }
    if (!CheckWritable(path).ok()) {
      return FieldError(flag, absl::StrCat("\"", path, "\""),
                        "a file that can be written, in a folder that exists");
    }
  }
  return absl::OkStatus();
}

}  // namespace attn
