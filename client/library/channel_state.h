// What the copies of a RawChannel share.
#pragma once

#include <memory>
#include <string>

#include "client/library/retry_policy.h"
#include "client/library/retry_throttle.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"

namespace attn {

// Thread-safe: but for the tokens, nothing changes.
struct ChannelState {
  explicit ChannelState(const RetryPolicy& policy)
      : retry(policy), throttle(policy) {}

  // Shows the channel's token, if it has one.
  void Authorize(grpc::ClientContext& context) const {
    if (authorization.empty()) return;
    context.AddMetadata("authorization", authorization);
  }

  std::string address;
  std::string authorization;
  // Of small and of large requests.
  std::shared_ptr<grpc::GenericStub> small;
  std::shared_ptr<grpc::GenericStub> large;
  const RetryPolicy retry;
  RetryThrottle throttle;
};

}  // namespace attn
