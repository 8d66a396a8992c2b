#include "client/cli/load_command.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/spec_flags.h"
#include "client/load/attend_target.h"
#include "client/load/load_report.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kLoadFooter[] = R"(
The open loop (--rate) sends on schedule whatever the server does, and measures
latency from the time a request was meant to be sent: a stall of the server, or
of this program, is in the percentiles. Service time runs from the actual send.
The closed loop (--closed) sends when an answer came: it finds the capacity, but
its latencies hide stalls.

Exit code 1: less than 99 % of the offered rate was achieved, or a verified
answer was wrong.

Examples:
  attn load --closed 8 --duration 10s
  attn load --rate 500 --shape 1,8,8,512,512,64 --causal --dtype bf16
  attn load --rate 2000 --arrivals constant --connections 4 --json)";

// As given on the command line.
struct LoadFlags {
  std::string shape = "1,4,4,16,16,32";
  std::string dtype = "f32";
  bool causal = false;
  uint64_t seed = 1;
  int payloads = 4;
  double rate = 0;
  int closed = 0;
  std::string arrivals = "poisson";
  std::string duration = "10s";
  std::string warmup = "1s";
  int connections = 1;
  int max_in_flight = 4096;
  int verify_every = 100;
};

void AddCallFlags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--shape", flags.shape, "B,Hq,Hkv,Sq,Sk,D[,Dv]")
      ->capture_default_str();
  command.add_option("--dtype", flags.dtype, "f32, f16, bf16 or f64")
      ->capture_default_str();
  command.add_flag("--causal", flags.causal,
                   "Causal mask, aligned bottom right");
  command.add_option("--seed", flags.seed, "Of the tensors and the arrivals")
      ->capture_default_str();
  command
      .add_option("--payloads", flags.payloads,
                  "Different sets of tensors that take turns")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

void AddPaceFlags(CLI::App& command, LoadFlags& flags) {
  CLI::Option* rate =
      command
          .add_option("--rate", flags.rate, "Open loop: requests per second")
          ->check(CLI::Range(1e-3, 1e6));
  command
      .add_option("--closed", flags.closed,
                  "Closed loop: callers that wait for their answers")
      ->check(CLI::Range(1, 100'000))
      ->excludes(rate);
  command.add_option("--arrivals", flags.arrivals, "poisson or constant")
      ->capture_default_str();
  command.add_option("--duration", flags.duration, "Of the measured window")
      ->capture_default_str();
  command.add_option("--warmup", flags.warmup, "Load before it, not measured")
      ->capture_default_str();
  command
      .add_option("--connections", flags.connections,
                  "Connections that calls take turns on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--max-in-flight", flags.max_in_flight,
                  "Open loop: hold requests back beyond so many calls")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--verify-every", flags.verify_every,
                  "Verify each n-th round of payloads; 0: none")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
}

absl::StatusOr<absl::Duration> ParseLength(const std::string& text,
                                           const std::string& flag,
                                           absl::Duration least) {
  absl::Duration length;
  double seconds = 0;
  bool parsed = absl::ParseDuration(text, &length);
  if (!parsed && absl::SimpleAtod(text, &seconds)) {
    length = absl::Seconds(seconds);
    parsed = true;
  }
  if (!parsed || !(length >= least) || length > absl::Hours(24)) {
    return FieldError(flag, absl::StrCat("\"", text, "\""),
                      absl::StrCat("a time from ", absl::FormatDuration(least),
                                   " to 24h: 10s, 500ms, or seconds"));
  }
  return length;
}

absl::StatusOr<LoadOptions> ReadPace(const LoadFlags& flags) {
  LoadOptions options;
  if (flags.rate <= 0 && flags.closed <= 0) {
    return FieldError("--rate", "neither it nor --closed",
                      "one of the two: --rate 100 or --closed 4");
  }
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

absl::StatusOr<LoadReport> ReadFlags(const LoadFlags& flags,
                                     const GlobalOptions& global) {
  LoadReport report;
  auto shape = ParseCallShape(flags.shape);
  if (!shape.ok()) return shape.status();
  auto dtype = ParseFloatDType(flags.dtype, "--dtype");
  if (!dtype.ok()) return dtype.status();
  auto options = ReadPace(flags);
  if (!options.ok()) return options.status();
  report.profile = {.shape = *shape,
                    .dtype = *dtype,
                    .causal = flags.causal,
                    .seed = flags.seed};
  report.options = *options;
  report.payloads = flags.payloads;
  report.connections = flags.connections;
  report.address = global.address;
  return report;
}

void Print(const LoadReport& report, bool json) {
  const std::string text =
      json ? report.ToJson().dump(2) + "\n" : report.ToText();
  std::fputs(text.c_str(), stdout);
}

ExitCode RunLoadCommand(const LoadFlags& flags, const GlobalOptions& global) {
  absl::StatusOr<LoadReport> report = ReadFlags(flags, global);
  if (!report.ok()) return ReportUsageError(report.status());
  auto target = AttendTarget::Create({.address = global.address,
                                      .connections = flags.connections,
                                      .deadline = global.deadline(),
                                      .verify_every = flags.verify_every,
                                      .security = global.security},
                                     report->profile, flags.payloads);
  if (!target.ok()) return ReportUsageError(target.status());
  if (absl::Status status = (*target)->Probe(); !status.ok()) {
    return ReportCallError(status);
  }
  MonotonicTimer timer;
  report->result = RunLoad(report->options, (*target)->Call(), timer);
  report->verification = (*target)->FinishVerification();
  Print(*report, global.json);
  return report->Failures().empty() ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void AddLoadCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand("load", "Load a server and measure");
  command->footer(kLoadFooter);
  auto flags = std::make_shared<LoadFlags>();
  AddCallFlags(*command, *flags);
  AddPaceFlags(*command, *flags);
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunLoadCommand(*flags, options); };
  });
}

}  // namespace attn
