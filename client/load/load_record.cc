#include "client/load/load_record.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/io/json_tensor.h"
#include "client/load/load_plan.h"
#include "client/load/mix_profile.h"
#include "client/load/record_reader.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr char kRecordKind[] = "attn load record 2";
// UNAUTHENTICATED.
constexpr int64_t kLastStatusCode = 16;

RecordJson Write(const HdrHistogram& histogram) {
  RecordJson buckets = RecordJson::array();
  for (const HdrHistogram::Bucket& bucket : histogram.NonEmptyBuckets()) {
    buckets.push_back({bucket.lowest, bucket.count});
  }
  return {{"min", histogram.min()},
          {"max", histogram.max()},
          {"sum", histogram.sum()},
          {"clipped", histogram.clipped()},
          {"buckets", std::move(buckets)}};
}

absl::Status Read(RecordReader reader, HdrHistogram& histogram) {
  HdrHistogram::Contents contents;
  reader.Get("min", contents.min);
  reader.Get("max", contents.max);
  reader.Get("sum", contents.sum);
  reader.Get("clipped", contents.clipped);
  for (const RecordReader& bucket : reader.List("buckets")) {
    std::vector<int64_t> pair;
    bucket.Value(pair);
    if (pair.size() != 2) {
      reader.Fail("buckets", "[lowest, count] for each");
      break;
    }
    contents.buckets.push_back(
        {.lowest = pair[0], .highest = 0, .count = pair[1]});
  }
  if (!reader.status().ok()) return reader.status();
  auto made = HdrHistogram::From(contents);
  if (!made.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.place(), ": ", made.status().message()));
  }
  histogram = *std::move(made);
  return absl::OkStatus();
}

struct TallyHistogram {
  const char* name;
  HdrHistogram CallTally::*histogram;
};
constexpr TallyHistogram kTallyHistograms[] = {
    {"latency_ns", &CallTally::latency},
    {"service_ns", &CallTally::service},
    {"server_queue_ns", &CallTally::server_queue},
    {"server_compute_ns", &CallTally::server_compute},
};

struct TallyCount {
  const char* name;
  int64_t CallTally::*count;
};
constexpr TallyCount kTallyCounts[] = {
    {"offered", &CallTally::offered},
    {"sent", &CallTally::sent},
    {"answered", &CallTally::answered},
    {"answered_in_time", &CallTally::answered_in_time},
    {"held_back", &CallTally::held_back},
    {"unsent", &CallTally::unsent},
};

RecordJson Write(const CallTally& tally) {
  RecordJson json;
  for (const TallyCount& row : kTallyCounts) json[row.name] = tally.*row.count;
  RecordJson errors = RecordJson::array();
  for (const auto& [code, count] : tally.errors) {
    const auto said = tally.first_errors.find(code);
    errors.push_back(
        {{"code", static_cast<int>(code)},
         {"count", count},
         {"first", said == tally.first_errors.end() ? "" : said->second}});
  }
  json["errors"] = std::move(errors);
  RecordJson reasons = RecordJson::array();
  for (const auto& [reason, count] : tally.errors_by_reason) {
    reasons.push_back({{"reason", reason}, {"count", count}});
  }
  json["reasons"] = std::move(reasons);
  for (const TallyHistogram& row : kTallyHistograms) {
    json[row.name] = Write(tally.*row.histogram);
  }
  return json;
}

absl::Status Read(RecordReader reader, CallTally& tally) {
  for (const TallyCount& row : kTallyCounts) {
    reader.Get(row.name, tally.*row.count);
  }
  for (RecordReader& error : reader.List("errors")) {
    int64_t code = 0;
    error.Get("code", code);
    if (code < 1 || code > kLastStatusCode) error.Fail("code", "1 to 16");
    const auto key = static_cast<absl::StatusCode>(code);
    error.Get("count", tally.errors[key]);
    error.Get("first", tally.first_errors[key]);
    if (!error.status().ok()) return error.status();
  }
  for (RecordReader& one : reader.List("reasons")) {
    std::string reason;
    one.GetLine("reason", reason);
    one.Get("count", tally.errors_by_reason[reason]);
    if (!one.status().ok()) return one.status();
  }
  for (const TallyHistogram& row : kTallyHistograms) {
    absl::Status status = Read(reader.Object(row.name), tally.*row.histogram);
    if (!status.ok()) return status;
  }
  return reader.status();
}

RecordJson Write(const Verification& verification) {
  return {{"verified", verification.verified},
          {"mismatches", verification.mismatches},
          {"skipped", verification.skipped},
          {"first_mismatch", verification.first_mismatch}};
}

absl::Status Read(RecordReader reader, Verification& verification) {
  reader.Get("verified", verification.verified);
  reader.Get("mismatches", verification.mismatches);
  reader.Get("skipped", verification.skipped);
  reader.GetLine("first_mismatch", verification.first_mismatch);
  return reader.status();
}

RecordJson Write(const LoadOptions& options) {
  return {{"rate", options.rate},
          {"arrivals", Name(options.arrivals)},
          {"callers", options.callers},
          {"duration_ns", absl::ToInt64Nanoseconds(options.duration)},
          {"warmup_ns", absl::ToInt64Nanoseconds(options.warmup)},
          {"max_in_flight", options.max_in_flight}};
}

absl::Status Read(RecordReader reader, LoadOptions& options) {
  std::string arrivals;
  int64_t duration = 0;
  int64_t warmup = 0;
  reader.Get("rate", options.rate);
  reader.Get("arrivals", arrivals);
  reader.Get("callers", options.callers);
  reader.Get("duration_ns", duration);
  reader.Get("warmup_ns", warmup);
  reader.Get("max_in_flight", options.max_in_flight);
  const auto parsed = ParseArrivals(arrivals);
  if (!parsed.ok()) reader.Fail("arrivals", "poisson or constant");
  if (!reader.status().ok()) return reader.status();
  options.arrivals = *parsed;
  options.duration = absl::Nanoseconds(duration);
  options.warmup = absl::Nanoseconds(warmup);
  return absl::OkStatus();
}

RecordJson Write(const LoadStep& step) {
  const LoadResult& result = step.result;
  RecordJson json;
  json["options"] = Write(step.options);
  json["warmup_requests"] = result.warmup_requests;
  json["window_s"] = result.window_seconds;
  json["cpu_s"] = result.cpu_seconds;
  json["slip_ns"] = Write(result.slip);
  json["tallies"] = RecordJson::array();
  // The total of several classes follows from them.
  if (result.classes.empty()) {
    json["tallies"].push_back(Write(static_cast<const CallTally&>(result)));
  }
  for (const CallTally& tally : result.classes) {
    json["tallies"].push_back(Write(tally));
  }
  json["verification"] = RecordJson::array();
  for (const Verification& verification : step.verification) {
    json["verification"].push_back(Write(verification));
  }
  return json;
}

// `classes`: how many there are. Checked first, for each takes a megabyte.
absl::Status Read(RecordReader reader, size_t classes, LoadStep& step) {
  LoadResult& result = step.result;
  const std::vector<RecordReader> tallies = reader.List("tallies");
  if (tallies.size() != classes) reader.Fail("tallies", "one for each class");
  reader.Get("warmup_requests", result.warmup_requests);
  reader.Get("window_s", result.window_seconds);
  reader.Get("cpu_s", result.cpu_seconds);
  constexpr double kShortestWindow = 1e-3;
  if (result.window_seconds < kShortestWindow) {
    reader.Fail("window_s", "a number >= 0.001");
  }
  if (!reader.status().ok()) return reader.status();
  absl::Status status = Read(reader.Object("options"), step.options);
  if (status.ok()) status = Read(reader.Object("slip_ns"), result.slip);
  if (!status.ok()) return status;
  for (const RecordReader& one : tallies) {
    CallTally tally;
    status = Read(one, tally);
    if (!status.ok()) return status;
    result.Merge(tally);
    if (classes > 1) result.classes.push_back(std::move(tally));
  }
  for (const RecordReader& one : reader.List("verification")) {
    status = Read(one, step.verification.emplace_back());
    if (!status.ok()) return status;
  }
  if (step.verification.size() != classes) {
    reader.Fail("verification", "one for each class");
  }
  return reader.status();
}

RecordJson Write(const ReportedClass& one) {
  return {{"name", one.name},
          {"weight", one.weight},
          {"call", one.call},
          {"payloads", one.payloads}};
}

absl::Status Read(RecordReader reader, ReportedClass& one) {
  reader.GetLine("name", one.name);
  reader.Get("weight", one.weight);
  reader.GetLine("call", one.call);
  reader.Get("payloads", one.payloads);
  return reader.status();
}

absl::Status ReadHead(RecordReader& reader, LoadReport& report) {
  std::string kind;
  std::string started;
  std::string slo;
  std::string seed;
  reader.Get("kind", kind);
  if (kind != kRecordKind) reader.Fail("kind", kRecordKind);
  reader.GetLine("address", report.address);
  reader.Get("started", started);
  reader.Get("seed", seed);
  reader.Get("connections", report.connections);
  reader.Get("processes", report.processes);
  reader.Get("slo", slo);
  if (!absl::ParseTime(absl::RFC3339_full, started, &report.started, nullptr)) {
    reader.Fail("started", "a time of RFC 3339");
  }
  if (!slo.empty()) {
    const auto parsed = ParseSlo(slo);
    if (!parsed.ok()) reader.Fail("slo", "an SLO: p99=20ms");
    if (parsed.ok()) report.slo = *parsed;
  }
  if (!absl::SimpleAtoi(seed, &report.seed)) reader.Fail("seed", "a number");
  return reader.status();
}

// The elements of a list of 1 to `most`.
std::vector<RecordReader> Some(const char* key, size_t most,
                               RecordReader& reader) {
  std::vector<RecordReader> elements = reader.List(key);
  if (elements.empty() || elements.size() > most) {
    reader.Fail(key, absl::StrCat("a list of 1 to ", most));
    elements.clear();
  }
  return elements;
}

}  // namespace

std::string LoadRecord(const LoadReport& report) {
  RecordJson json;
  json["kind"] = kRecordKind;
  json["address"] = report.address;
  json["started"] =
      absl::FormatTime(absl::RFC3339_full, report.started, absl::UTCTimeZone());
  json["seed"] = absl::StrCat(report.seed);
  json["connections"] = report.connections;
  json["processes"] = report.processes;
  json["slo"] = report.slo.has_value() ? report.slo->ToString() : "";
  json["classes"] = RecordJson::array();
  for (const ReportedClass& one : report.classes) {
    json["classes"].push_back(Write(one));
  }
  json["steps"] = RecordJson::array();
  for (const LoadStep& step : report.steps)
    json["steps"].push_back(Write(step));
  return absl::StrCat(
      json.dump(-1, ' ', true, RecordJson::error_handler_t::replace), "\n");
}

absl::StatusOr<LoadReport> ParseLoadRecord(const std::string& text,
                                           const std::string& name) {
  const auto document = ParseJson(text, name);
  if (!document.ok()) return document.status();
  RecordReader reader(*document, name);
  LoadReport report;
  absl::Status status = ReadHead(reader, report);
  if (!status.ok()) return status;
  for (const RecordReader& one : Some("classes", kMostClasses, reader)) {
    status = Read(one, report.classes.emplace_back());
    if (!status.ok()) return status;
  }
  if (!reader.status().ok()) return reader.status();
  for (const RecordReader& one : Some("steps", kMostSteps, reader)) {
    status = Read(one, report.classes.size(), report.steps.emplace_back());
    if (!status.ok()) return status;
  }
  if (!reader.status().ok()) return reader.status();
  return report;
}

}  // namespace attn
