// Times as people read and write them.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attn {

// Three digits: "812 ns", "4.21 us", "31.2 ms", "1.02 s".
std::string FormatNanos(double nanos);

// Requests per second, four digits or all before the point: "0.125/s",
// "99.95/s", "12345/s".
std::string FormatRate(double rate);

// "10s", "500ms", "1m30s", or seconds: "1.5".
std::optional<absl::Duration> ParseTime(const std::string& text);

// The same. INVALID_ARGUMENT names `field` if it is none, or not from `least`
// to 24 h.
absl::StatusOr<absl::Duration> ParseLength(const std::string& text,
                                           absl::string_view field,
                                           absl::Duration least);

}  // namespace attn
