// google.rpc.Status with the details that attn sends, as bytes: what the
// trailer grpc-status-details-bin holds.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attn {

// The domain of google.rpc.ErrorInfo.
inline constexpr char kErrorDomain[] = "attention.v1";

// Marks an error with the reason that ErrorInfo gives; without it that is the
// name of the code.
absl::Status WithReason(absl::Status status, absl::string_view reason);

// Status{code, message, details}: BadRequest if FieldOf(status) names a field,
// RetryInfo if there is a delay, and ErrorInfo always.
std::string EncodeErrorDetails(const absl::Status& status,
                               std::optional<absl::Duration> retry_delay);

// What a client can make use of.
struct ErrorDetails {
  std::optional<std::string> field;
  std::optional<absl::Duration> retry_delay;
  // ErrorInfo.reason, e.g. "INVALID_ARGUMENT"; empty if there was none.
  std::string reason;
};

// Details of other kinds are passed over; bytes that are no google.rpc.Status
// give what was understood until then.
ErrorDetails DecodeErrorDetails(absl::string_view bytes);

}  // namespace attn
