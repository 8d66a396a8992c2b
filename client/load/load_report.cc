#include "client/load/load_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNanosPerMicro = 1e3;

struct NamedPercentile {
  const char* name;
  double percentile;
};
constexpr NamedPercentile kPercentiles[] = {
    {"p50", 50},     {"p90", 90},       {"p99", 99},
    {"p99.9", 99.9}, {"p99.99", 99.99}, {"max", 100},
};

double Micros(double nanos) { return nanos / kNanosPerMicro; }

double MicrosAt(const HdrHistogram& histogram, double percentile) {
  return Micros(static_cast<double>(histogram.ValueAtPercentile(percentile)));
}

Json ToJson(const HdrHistogram& histogram) {
  Json json;
  const bool empty = histogram.count() == 0;
  for (const NamedPercentile& p : kPercentiles) {
    json[p.name] = empty ? Json() : Json(MicrosAt(histogram, p.percentile));
  }
  json["mean"] = empty ? Json() : Json(Micros(histogram.mean()));
  json["min"] =
      empty ? Json() : Json(Micros(static_cast<double>(histogram.min())));
  json["count"] = histogram.count();
  return json;
}

std::string Row(const char* name, const HdrHistogram& histogram) {
  std::string row = absl::StrFormat("  %-18s", name);
  if (histogram.count() == 0) return row + "        -\n";
  for (const NamedPercentile& p : kPercentiles) {
    absl::StrAppendFormat(&row, " %9.1f", MicrosAt(histogram, p.percentile));
  }
  return absl::StrFormat("%s %9.1f\n", row, Micros(histogram.mean()));
}

std::string Table(const LoadResult& result) {
  std::string text = absl::StrFormat("  %-18s", "microseconds");
  for (const NamedPercentile& p : kPercentiles) {
    absl::StrAppendFormat(&text, " %9s", p.name);
  }
  absl::StrAppendFormat(&text, " %9s\n", "mean");
  text += Row("latency (intended)", result.latency);
  text += Row("service (sent)", result.service);
  text += Row("server queue", result.server_queue);
  text += Row("server compute", result.server_compute);
  text += Row("client slip", result.slip);
  return text;
}

std::string Mode(const LoadOptions& options) {
  return options.open()
             ? absl::StrFormat("open loop, %s arrivals at %g/s",
                               Name(options.arrivals), options.rate)
             : absl::StrFormat("closed loop, %d callers", options.callers);
}

std::string Errors(const LoadResult& result) {
  std::string text;
  for (const auto& [code, count] : result.errors) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    absl::StatusCodeToString(code), " ", count);
  }
  return text.empty() ? "none" : text;
}

double AchievedShare(const LoadResult& result) {
  return result.offered == 0 ? 0
                             : static_cast<double>(result.answered_in_time) /
                                   static_cast<double>(result.offered);
}

// What one caller asked for, without what came of it.
Json ConfigJson(const LoadReport& report) {
  const LoadOptions& options = report.options;
  Json json;
  json["address"] = report.address;
  json["call"] = report.profile.ToString();
  json["seed"] = report.profile.seed;
  json["payloads"] = report.payloads;
  json["connections"] = report.connections;
  json["warmup_s"] = absl::ToDoubleSeconds(options.warmup);
  if (options.open()) {
    json["rate_rps"] = options.rate;
    json["arrivals"] = Name(options.arrivals);
    json["max_in_flight"] = options.max_in_flight;
  } else {
    json["callers"] = options.callers;
  }
  return json;
}

Json ErrorsJson(const LoadResult& result) {
  Json json = Json::object();
  for (const auto& [code, count] : result.errors) {
    json[absl::StatusCodeToString(code)] = count;
  }
  return json;
}

}  // namespace

std::vector<std::string> LoadReport::Failures() const {
  std::vector<std::string> failures;
  if (result.offered == 0) {
    failures.emplace_back("no request fell into the window");
  } else if (!result.KeptUp()) {
    failures.push_back(absl::StrFormat(
        "achieved %.1f %% of the offered rate, %.0f %% is required",
        100 * AchievedShare(result), 100 * kRequiredShare));
  }
  if (verification.mismatches > 0) {
    failures.push_back(
        absl::StrFormat("%d of %d verified answers are wrong; the first: %s",
                        verification.mismatches, verification.verified,
                        verification.first_mismatch));
  }
  return failures;
}

std::string LoadReport::ToText() const {
  std::string text =
      absl::StrFormat("%s for %s after %s of warm-up\n", Mode(options),
                      absl::FormatDuration(options.duration),
                      absl::FormatDuration(options.warmup));
  absl::StrAppendFormat(&text, "%s, %d payloads, %d connection%s to %s\n\n",
                        profile.ToString(), payloads, connections,
                        connections == 1 ? "" : "s", address);
  absl::StrAppendFormat(&text, "  offered   %10.1f/s  %d requests\n",
                        result.offered_rate(), result.offered);
  absl::StrAppendFormat(&text, "  achieved  %10.1f/s  %.1f %%\n",
                        result.achieved_rate(), 100 * AchievedShare(result));
  absl::StrAppendFormat(&text, "  errors    %10d    %s\n\n",
                        result.error_count(), Errors(result));
  absl::StrAppend(&text, Table(result), "\n");
  absl::StrAppendFormat(
      &text,
      "  client: %.2f CPU s, %.0f %% of one core; %d held back, %d unsent\n",
      result.cpu_seconds, 100 * result.cpu_seconds / result.window_seconds,
      result.held_back, result.unsent);
  absl::StrAppendFormat(
      &text, "  verified %d answers against the reference, %d wrong\n",
      verification.verified, verification.mismatches);
  for (const std::string& failure : Failures()) {
    absl::StrAppend(&text, "\nFAILED: ", failure, "\n");
  }
  return text;
}

nlohmann::ordered_json LoadReport::ToJson() const {
  const std::vector<std::string> failures = Failures();
  Json json;
  json["mode"] = options.open() ? "open" : "closed";
  json["config"] = ConfigJson(*this);
  json["latency_us"] = attn::ToJson(result.latency);
  json["service_us"] = attn::ToJson(result.service);
  json["offered_rps"] = result.offered_rate();
  json["achieved_rps"] = result.achieved_rate();
  json["requests"] = result.offered;
  json["answered"] = result.answered;
  json["errors"] = result.error_count();
  json["errors_by_code"] = ErrorsJson(result);
  json["warmup_requests"] = result.warmup_requests;
  json["duration_s"] = result.window_seconds;
  json["server"] = {{"queue_us", attn::ToJson(result.server_queue)},
                    {"compute_us", attn::ToJson(result.server_compute)}};
  json["client"] = {{"cpu_s", result.cpu_seconds},
                    {"slip_us", attn::ToJson(result.slip)},
                    {"held_back", result.held_back},
                    {"unsent", result.unsent}};
  json["verified"] = verification.verified;
  json["mismatches"] = verification.mismatches;
  json["passed"] = failures.empty();
  json["failures"] = failures;
  return json;
}

}  // namespace attn
