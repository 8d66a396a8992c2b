#include "server/http/gateway_metadata.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/core/field_error.h"
#include "server/rpc/caller.h"

namespace attn {
namespace {

// Of the header Grpc-Timeout, as gRPC's own: digits and a unit.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  constexpr size_t kMaxDigits = 8;
  static constexpr std::pair<char, absl::Duration (*)(int64_t)> kUnits[] = {
      {'H', [](int64_t n) { return absl::Hours(n); }},
      {'M', [](int64_t n) { return absl::Minutes(n); }},
      {'S', [](int64_t n) { return absl::Seconds(n); }},
      {'m', [](int64_t n) { return absl::Milliseconds(n); }},
      {'u', [](int64_t n) { return absl::Microseconds(n); }},
      {'n', [](int64_t n) { return absl::Nanoseconds(n); }}};
  int64_t count = 0;
  const absl::string_view digits = text.substr(0, text.size() - 1);
  const bool is_number =
      digits.size() <= kMaxDigits &&
      std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(digits, &count);
  for (const auto& [unit, make] : kUnits) {
    if (is_number && text.back() == unit) return make(count);
  }
  return FieldError("Grpc-Timeout", absl::StrCat("\"", text, "\""),
                    "up to 8 digits and H, M, S, m, u or n, as in 500m");
}

// What the value of gRPC's metadata may hold: a call with another ends the
// process.
bool IsMetadataText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

absl::Status PassOnMetadata(const HttpRequest& request,
                            grpc::ClientContext& context) {
  for (const char* name : {"authorization", "traceparent"}) {
    const absl::string_view value = request.Header(name);
    if (!IsMetadataText(value)) {
      return FieldError(name, "bytes that are no printable ASCII",
                        "printable ASCII");
    }
    if (!value.empty()) context.AddMetadata(name, std::string(value));
  }
  if (request.certified) {
    context.AddMetadata(kCertificateMetadata,
                        CertificateMetadata(request.certificate_name));
  }
  const absl::string_view timeout = request.Header("grpc-timeout");
  if (timeout.empty()) return absl::OkStatus();
  const auto limit = ParseTimeout(timeout);
  if (!limit.ok()) return limit.status();
  // As gRPC does: beyond what its clock can count there is no deadline.
  constexpr int64_t kLongestHours = 24 * 365;
  if (*limit > absl::Hours(kLongestHours)) return absl::OkStatus();
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(*limit));
  return absl::OkStatus();
}

}  // namespace attn
