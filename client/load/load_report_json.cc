#include "client/load/load_report_json.h"

#include "absl/time/time.h"
#include "client/load/load_report_sessions.h"

namespace attn {
namespace {

using ReportJson = nlohmann::ordered_json;

ReportJson Micros(double nanos, bool measured) {
  constexpr double kNanosPerMicro = 1e3;
  return measured ? ReportJson(nanos / kNanosPerMicro) : ReportJson();
}

template <typename Value>
ReportJson ByCode(const std::map<absl::StatusCode, Value>& values) {
  ReportJson json = ReportJson::object();
  for (const auto& [code, value] : values) {
    json[absl::StatusCodeToString(code)] = value;
  }
  return json;
}

// What a total and a class have in common.
void PutTally(const LoadResult& run, const CallTally& tally, ReportJson& json) {
  json["latency_us"] = PercentilesJson(tally.latency);
  json["service_us"] = PercentilesJson(tally.service);
  json["offered_rps"] = run.RateOf(tally.offered);
  json["achieved_rps"] = run.RateOf(tally.answered_in_time);
  json["requests"] = tally.offered;
  json["answered"] = tally.answered;
  json["errors"] = tally.error_count();
  json["errors_by_code"] = ByCode(tally.errors);
  json["first_errors"] = ByCode(tally.first_errors);
  json["errors_by_reason"] = tally.errors_by_reason;
  json["server"] = {{"queue_us", PercentilesJson(tally.server_queue)},
                    {"compute_us", PercentilesJson(tally.server_compute)}};
}

void PutVerification(const Verification& verification, ReportJson& json) {
  json["verified"] = verification.verified;
  json["mismatches"] = verification.mismatches;
}

// Of a class that has sessions.
void PutSessions(const LoadStep& step, size_t index, ReportJson& json) {
  if (index >= step.sessions.size() || !step.sessions[index].has_value())
    return;
  json["sessions"] = SessionsJson(step.result, *step.sessions[index]);
}

ReportJson ClassesJson(const LoadReport& report, const LoadStep& step) {
  ReportJson list = ReportJson::array();
  for (size_t i = 0; i < step.result.classes.size(); ++i) {
    ReportJson json;
    json["name"] = report.classes[i].name;
    PutTally(step.result, step.result.classes[i], json);
    PutVerification(step.verification.at(i), json);
    PutSessions(step, i, json);
    list.push_back(std::move(json));
  }
  return list;
}

ReportJson TimelineJson(const LoadResult& result) {
  ReportJson list = ReportJson::array();
  for (const TimelinePoint& point : result.timeline) {
    const bool measured = point.requests > 0;
    list.push_back(
        {{"start_s", point.start_s},
         {"length_s", point.length_s},
         {"requests", point.requests},
         {"errors", point.errors},
         {"p50_us", Micros(static_cast<double>(point.p50), measured)},
         {"p99_us", Micros(static_cast<double>(point.p99), measured)},
         {"max_us", Micros(static_cast<double>(point.max), measured)}});
  }
  return list;
}

// How the loop was run.
void PutPace(const LoadOptions& options, ReportJson& json) {
  json["warmup_s"] = absl::ToDoubleSeconds(options.warmup);
  if (options.open()) {
    json["rate_rps"] = options.rate;
    json["arrivals"] = Name(options.arrivals);
    json["max_in_flight"] = options.max_in_flight;
  } else {
    json["callers"] = options.callers;
  }
}

void PutStep(const LoadReport& report, const LoadStep& step, ReportJson& json) {
  const LoadResult& result = step.result;
  PutTally(result, result, json);
  json["warmup_requests"] = result.warmup_requests;
  json["duration_s"] = result.window_seconds;
  json["client"] = {{"cpu_s", result.cpu_seconds},
                    {"slip_us", PercentilesJson(result.slip)},
                    {"held_back", result.held_back},
                    {"unsent", result.unsent}};
  PutVerification(step.verified(), json);
  if (!result.classes.empty()) json["classes"] = ClassesJson(report, step);
  if (result.classes.empty()) PutSessions(step, 0, json);
  json["timeline"] = TimelineJson(result);
}

ReportJson ConfigJson(const LoadReport& report, const LoadOptions& options) {
  ReportJson json;
  json["address"] = report.address;
  json["started"] =
      absl::FormatTime(absl::RFC3339_sec, report.started, absl::UTCTimeZone());
  if (report.classes.size() == 1) {
    json["call"] = report.classes[0].call;
    json["payloads"] = report.classes[0].payloads;
  } else {
    for (const ReportedClass& one : report.classes) {
      json["classes"].push_back({{"name", one.name},
                                 {"weight", one.weight},
                                 {"call", one.call},
                                 {"payloads", one.payloads}});
    }
  }
  json["seed"] = report.seed;
  json["connections"] = report.connections;
  json["processes"] = report.processes;
  PutPace(options, json);
  if (report.slo.has_value()) json["slo"] = report.slo->ToString();
  if (report.most_spread > 0) json["most_spread"] = report.most_spread;
  return json;
}

ReportJson OrNull(const std::optional<double>& value) {
  return value.has_value() ? ReportJson(*value) : ReportJson();
}

ReportJson SearchJson(const ReportedSearch& search) {
  const RateSearchOutcome& rates = search.outcome.rates;
  return {{"knee_rps", OrNull(rates.held)},
          {"failed_rps", OrNull(rates.failed)},
          {"converged", rates.converged},
          {"tolerance", search.options.tolerance},
          {"runs", rates.trials},
          {"from_rps", search.outcome.range.from},
          {"to_rps", search.outcome.range.to},
          {"probed_rps", search.outcome.probed_rate}};
}

ReportJson StepsJson(const LoadReport& report) {
  ReportJson list = ReportJson::array();
  for (const LoadStep& step : report.steps) {
    const std::vector<std::string> failures =
        step.Failures(report.slo_or_null(), report.most_spread);
    ReportJson json;
    PutPace(step.options, json);
    PutStep(report, step, json);
    json["passed"] = failures.empty();
    json["failures"] = failures;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

nlohmann::ordered_json PercentilesJson(const HdrHistogram& histogram) {
  ReportJson json;
  const bool measured = histogram.count() > 0;
  for (const ReportedPercentile& p : kReportedPercentiles) {
    json[p.name] =
        Micros(static_cast<double>(histogram.ValueAtPercentile(p.percentile)),
               measured);
  }
  json["mean"] = Micros(histogram.mean(), measured);
  json["min"] = Micros(static_cast<double>(histogram.min()), measured);
  json["count"] = histogram.count();
  return json;
}

nlohmann::ordered_json LoadReportJson(const LoadReport& report) {
  const size_t main = report.MainStep();
  const LoadStep& step = report.steps[main];
  const std::vector<std::string> failures = report.Failures();
  ReportJson json;
  json["mode"] = step.options.open() ? "open" : "closed";
  json["config"] = ConfigJson(report, step.options);
  PutStep(report, step, json);
  if (report.search.has_value()) json["search"] = SearchJson(*report.search);
  if (report.steps.size() > 1 || report.search.has_value()) {
    json["main_step"] = main;
    json["steps"] = StepsJson(report);
  }
  json["passed"] = failures.empty();
  json["failures"] = failures;
  json["notes"] = report.Notes();
  return json;
}

}  // namespace attn
