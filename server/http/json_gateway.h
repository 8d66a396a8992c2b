// Calls of the gRPC services as JSON over HTTP.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "server/http/http_exchange.h"

namespace attn {

struct JsonGatewayOptions {
  // To the server itself: its limits, its errors and its metrics are those of
  // gRPC.
  std::shared_ptr<grpc::Channel> channel;
  // Of calls at once; one more is refused.
  int max_calls = 64;
  // Of responses that wait to be made JSON; one more is refused.
  int64_t max_answers_bytes = int64_t{64} << 20;
};

// Each call is one unary call on the channel; JSON is read and written, by
// protobuf's JSON mapping, on two threads of the gateway's own. A client that
// leaves cancels its call. Thread-safe.
class JsonGateway {
 public:
  explicit JsonGateway(const JsonGatewayOptions& options);
  // Waits for the calls that run.
  ~JsonGateway();
  JsonGateway(const JsonGateway&) = delete;
  JsonGateway& operator=(const JsonGateway&) = delete;

  // Never blocks. Answers 404 for a path below /v1/ that is none of the
  // gateway's, 405 for another method than the path has, 415 for a body that is
  // not said to be JSON.
  void Handle(std::shared_ptr<HttpExchange> exchange);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attn
