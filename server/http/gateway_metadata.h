// What a request of HTTP says beside its message, as gRPC's metadata.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "server/http/http_exchange.h"

namespace attn {

// Passes on authorization, traceparent and the name of a verified certificate,
// and takes Grpc-Timeout, "500m", as the deadline. INVALID_ARGUMENT names
// the header that is none or that gRPC cannot pass on.
absl::Status PassOnMetadata(const HttpRequest& request,
                            grpc::ClientContext& context);

}  // namespace attn
