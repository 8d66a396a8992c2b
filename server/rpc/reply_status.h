// The status of a reply: what the engine or the gate said, as gRPC says it.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace attn {

// With google.rpc details: the field of a bad request, the delay before a retry
// of a refused one.
grpc::Status ToReplyStatus(const absl::Status& status);

}  // namespace attn
