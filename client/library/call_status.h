// What a failed call means to the caller.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace attn {

// The same code and words; FieldOf() gives the field that the server named, and
// ErrorReasonOf() its reason. If nobody answers, the message says where and
// what to do.
absl::Status FromCallStatus(const grpc::Status& status,
                            const std::string& address);

// Whether `status` says that no server could be reached, as against what a
// server said.
bool IsUnreachable(const absl::Status& status);

// `status` with the reason that `details`, a google.rpc.Status, names.
absl::Status WithErrorReason(absl::Status status, absl::string_view details);

// `status` with other words; what it carries beside them stays.
absl::Status WithMessage(const absl::Status& status, absl::string_view message);

// The reason of the google.rpc.ErrorInfo that came with an error, such as
// "SESSION_EXPIRED"; empty if there was none.
std::string ErrorReasonOf(const absl::Status& status);

}  // namespace attn
