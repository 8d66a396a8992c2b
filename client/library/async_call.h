// One call that is answered by a callback, through all its attempts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/library/call_retries.h"
#include "client/library/call_route.h"
#include "client/library/channel_state.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace attn {

// What is to be called, and until when.
struct AsyncRequest {
  // One of the channel's.
  grpc::GenericStub& stub;
  const char* method;
  grpc::ByteBuffer bytes;
  // The deadline of all attempts.
  absl::Time end;
  Repeat repeat;
  CallRoute route{};
};

// Keeps itself until `done`, which is called exactly once, has returned. One
// thread at a time uses it: the one that starts an attempt, then gRPC's.
class AsyncCall : public std::enable_shared_from_this<AsyncCall> {
 public:
  using Done = std::function<void(const absl::Status& status,
                                  const grpc::ByteBuffer& response)>;

  static void Start(std::shared_ptr<ChannelState> channel, AsyncRequest request,
                    Done done);

 private:
  AsyncCall(std::shared_ptr<ChannelState> channel, AsyncRequest request,
            Done done)
      : channel_(std::move(channel)),
        request_(std::move(request)),
        retries_(channel_->retry, request_.repeat, request_.end,
                 channel_->throttle),
        done_(std::move(done)) {}

  void Attempt();
  void AttemptAfter(absl::Duration wait);
  void Ended(const absl::Status& status);

  std::shared_ptr<ChannelState> channel_;
  AsyncRequest request_;
  CallRetries retries_;
  Done done_;
  // Of the attempt that is under way.
  std::optional<grpc::ClientContext> context_;
  grpc::ByteBuffer response_;
  std::shared_ptr<grpc::Alarm> alarm_;
};

}  // namespace attn
