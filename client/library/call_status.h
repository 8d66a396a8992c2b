// What a failed call means to the caller.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace attn {

// The same code and words; FieldOf() gives the field that the server named. If
// nobody answers, the message says where and what to do.
absl::Status FromCallStatus(const grpc::Status& status,
                            const std::string& address);

// Whether `status` says that no server could be reached, as against what a
// server said.
bool IsUnreachable(const absl::Status& status);

}  // namespace attn
