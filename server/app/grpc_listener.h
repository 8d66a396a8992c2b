// gRPC's server with our settings: health, reflection, limits, keepalive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "server/security/certificates.h"

namespace attn {

struct GrpcListenerOptions {
  std::vector<std::string> addresses;
  // Bounds what the transport buffers: gRPC reads a message whole before it
  // compares it with any limit.
  int64_t quota_bytes = 0;
  // Of one connection.
  int max_concurrent_streams = 2048;
  // A client that pings more often, with or without calls, loses its
  // connection: "too_many_pings".
  absl::Duration min_ping_interval = absl::Seconds(5);
  // 0: connections do not age. Calls of one that did go on for as long as they
  // take.
  absl::Duration max_connection_age{};
  // A connection that brought nothing for so long is pinged; one that does not
  // answer within the timeout is closed, and what its calls held is free.
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Whoever reaches the address may ask for the schema, and be read without a
  // limit of ours.
  bool reflection = true;
  // What the health service is asked by, beside "": the services' names.
  std::vector<std::string> health_names{};
  // Null: no TLS. Must outlive the listener.
  const CertificateStore* certificates = nullptr;
};

struct GrpcListener {
  // Those of TLS, which must outlive the server.
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials;
  std::unique_ptr<grpc::Server> server;
  // As asked for, with the ports that were really bound.
  std::vector<std::string> addresses;
  std::vector<std::string> health_names;
};

// Binds every address and starts to serve, unix: ones without TLS. The health
// service says NOT_SERVING. FAILED_PRECONDITION, one line, names the address
// that could not be bound. The services must outlive the listener.
absl::StatusOr<GrpcListener> StartGrpcListener(
    const GrpcListenerOptions& options,
    const std::vector<grpc::Service*>& services);

// What the health service says of "" and of each of its names.
void SetServing(const GrpcListener& listener, bool serving);

// Keeps the library's own lines out of the log unless GRPC_VERBOSITY is set.
void QuietGrpc();

}  // namespace attn
