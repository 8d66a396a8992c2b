// gRPC's server with our settings: health, reflection, limits, keepalive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"

namespace attn {

struct GrpcListenerOptions {
  std::vector<std::string> addresses;
  // Bounds what the transport buffers: gRPC reads a message whole before it
  // compares it with any limit.
  int64_t quota_bytes = 0;
};

struct GrpcListener {
  std::unique_ptr<grpc::Server> server;
  // As asked for, with the ports that were really bound.
  std::vector<std::string> addresses;
};

// Binds every address and starts to serve. The health service says
// NOT_SERVING. FAILED_PRECONDITION, one line, names the address that could not
// be bound. `service` must outlive the listener.
absl::StatusOr<GrpcListener> StartGrpcListener(
    const GrpcListenerOptions& options, grpc::Service& service);

// What the health service says of "" and of our service.
void SetServing(grpc::Server& server, bool serving);

// Keeps the library's own lines out of the log unless GRPC_VERBOSITY is set.
void QuietGrpc();

}  // namespace attn
