#include "client/load/slo.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/load/time_text.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// "max", or "p" and a number in (0, 100).
absl::StatusOr<double> ParsePercentile(const std::string& name) {
  if (name == "max") return 100;
  double percentile = 0;
  const bool digits =
      name.size() > 1 && name[0] == 'p' &&
      name.find_first_not_of("0123456789.", 1) == std::string::npos;
  if (digits && absl::SimpleAtod(name.substr(1), &percentile) &&
      percentile > 0 && percentile < 100) {
    return percentile;
  }
  return FieldError("--slo", absl::StrCat("\"", name, "\""),
                    "p50, p90, p99, p99.9, p99.99, any other pN, or max");
}

absl::StatusOr<LatencyBound> ParseBound(const std::string& text) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2) {
    return FieldError("--slo", absl::StrCat("\"", text, "\""),
                      "a percentile and a time: p99=20ms");
  }
  const auto percentile = ParsePercentile(parts[0]);
  if (!percentile.ok()) return percentile.status();
  const auto limit = ParseLength(parts[1], absl::StrCat("--slo ", parts[0]),
                                 absl::Nanoseconds(1));
  if (!limit.ok()) return limit.status();
  return LatencyBound{
      .name = parts[0], .percentile = *percentile, .limit = *limit};
}

std::string DescribeErrors(const LoadResult& result) {
  std::vector<std::string> parts;
  for (const auto& [code, count] : result.errors) {
    parts.push_back(absl::StrCat(count, " ", absl::StatusCodeToString(code)));
  }
  return absl::StrJoin(parts, ", ");
}

void CheckBound(const LatencyBound& bound, const HdrHistogram& latency,
                std::vector<std::string>& failures) {
  const int64_t value = latency.ValueAtPercentile(bound.percentile);
  if (value <= absl::ToInt64Nanoseconds(bound.limit)) return;
  failures.push_back(
      absl::StrFormat("%s is %s, the SLO allows %s", bound.name,
                      FormatNanos(static_cast<double>(value)),
                      FormatNanos(absl::ToDoubleNanoseconds(bound.limit))));
}

}  // namespace

std::string Slo::ToString() const {
  return absl::StrJoin(bounds, ",",
                       [](std::string* text, const LatencyBound& bound) {
                         absl::StrAppend(text, bound.name, "=",
                                         absl::FormatDuration(bound.limit));
                       });
}

absl::StatusOr<Slo> ParseSlo(const std::string& text) {
  Slo slo;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    auto bound = ParseBound(part);
    if (!bound.ok()) return bound.status();
    for (const LatencyBound& other : slo.bounds) {
      if (other.percentile != bound->percentile) continue;
      return FieldError("--slo", absl::StrCat(bound->name, " twice"),
                        "every percentile once");
    }
    slo.bounds.push_back(*std::move(bound));
  }
  return slo;
}

std::vector<std::string> RunFailures(const LoadResult& result, const Slo* slo) {
  std::vector<std::string> failures;
  if (result.offered == 0) {
    failures.emplace_back("no request fell into the window");
    return failures;
  }
  if (!result.KeptUp()) {
    failures.push_back(absl::StrFormat(
        "achieved %.1f %% of the offered rate, %.0f %% is required",
        100 * result.achieved_share(), 100 * kRequiredShare));
  }
  if (slo == nullptr) return failures;
  if (result.error_count() > 0) {
    failures.push_back(
        absl::StrFormat("%d calls failed (%s), the SLO allows none",
                        result.error_count(), DescribeErrors(result)));
  }
  for (const LatencyBound& bound : slo->bounds) {
    CheckBound(bound, result.latency, failures);
  }
  return failures;
}

}  // namespace attn
