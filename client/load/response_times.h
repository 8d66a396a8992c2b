// The server's own account of a call, read from the answer's first bytes.
#pragma once

#include <optional>

#include "client/library/raw_call.h"
#include "client/load/load_run.h"

namespace attn {

// Looks at the call's report and skips the rest: the tensors are not read.
// Absent if the answer has no report with timings.
std::optional<ServerTimes> ReadServerTimes(const grpc::ByteBuffer& response);

}  // namespace attn
