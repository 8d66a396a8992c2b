// absl::Status to and from grpc::Status. The codes are the same; the field and
// the retry delay travel as google.rpc details.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "proto/codec/error_details.h"

namespace attn {

// Marks an error with the time after which a retry makes sense.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The delay that a status was marked with, here or by the server.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// With details of the field (engine/core/field_error.h) and the retry delay.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The reverse: FieldOf() and RetryDelayOf() give what the server said.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace attn
