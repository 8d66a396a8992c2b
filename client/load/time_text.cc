#include "client/load/time_text.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/field_error.h"

namespace attn {

std::string FormatNanos(double nanos) {
  struct TimeUnit {
    const char* name;
    double nanos;
  };
  constexpr TimeUnit kUnits[] = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  // Three digits round up to the next unit from here on.
  constexpr double kNextUnit = 999.5;
  const TimeUnit* unit = &kUnits[0];
  for (const TimeUnit& next : kUnits) {
    unit = &next;
    if (nanos / next.nanos < kNextUnit) break;
  }
  const double value = nanos / unit->nanos;
  const int decimals = value >= 99.95 || unit == &kUnits[0] ? 0
                       : value >= 9.995                     ? 1
                                                            : 2;
  return absl::StrFormat("%.*f %s", decimals, value, unit->name);
}

std::string FormatRate(double rate) {
  constexpr double kFourDigits = 1000;
  return rate < kFourDigits ? absl::StrFormat("%.4g/s", rate)
                            : absl::StrFormat("%.0f/s", rate);
}

std::optional<absl::Duration> ParseTime(const std::string& text) {
  absl::Duration time;
  double seconds = 0;
  if (absl::ParseDuration(text, &time)) return time;
  if (absl::SimpleAtod(text, &seconds)) return absl::Seconds(seconds);
  return std::nullopt;
}

absl::StatusOr<absl::Duration> ParseLength(const std::string& text,
                                           absl::string_view field,
                                           absl::Duration least) {
  constexpr absl::Duration kMost = absl::Hours(24);
  const std::optional<absl::Duration> length = ParseTime(text);
  // The negation also refuses a NaN.
  if (!length || !(*length >= least) || *length > kMost) {
    return FieldError(field, absl::StrCat("\"", text, "\""),
                      absl::StrCat("a time from ", absl::FormatDuration(least),
                                   " to 24h: 10s, 500ms, or seconds"));
  }
  return *length;
}

}  // namespace attn
