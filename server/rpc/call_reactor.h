// A unary call of gRPC's that a CallJob computes.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/call_context.h"
#include "server/rpc/caller.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/watched_reactor.h"

namespace attn {

// Job is a CallJob. It lives on, when gRPC is done with the reactor, until the
// engine is done too.
template <typename Job>
class CallReactor final : public WatchedReactor {
 public:
  CallReactor(const CallContext& context, ReplyWatch& watch,
              grpc::CallbackServerContext& call, Caller caller,
              grpc::ByteBuffer* response)
      : WatchedReactor(watch, call, caller.deadline, *response),
        job_(std::make_shared<Job>(context, std::move(caller),
                                   [this, response](const absl::Status& status,
                                                    grpc::ByteBuffer& message) {
                                     response->Swap(&message);
                                     Reply(status);
                                   })) {
    made_.store(true, std::memory_order_release);
  }

  // The reactor may be gone when this returns, were it not that gRPC waits for
  // the handler to return it.
  void Run(grpc::ByteBuffer& request) { job_->Run(request); }

  // Any thread, once the handler has returned. gRPC orders the two, but inside
  // a library that no sanitizer sees into.
  void OnCancel() override {
    if (made_.load(std::memory_order_acquire)) job_->Cancel();
  }

 private:
  void Ended(const absl::Status& sent) override {
    if (!sent.ok()) job_->NoteLost(sent);
    job_->Report();
  }

  const std::shared_ptr<Job> job_;
  std::atomic<bool> made_{false};
};

// Computes one call; what the handler is to return. The first three must
// outlive the gRPC server. Empties `request`, which is the handler's alone: its
// slices are of no use once the payloads are gathered, and keeping them would
// double the memory of a call.
template <typename Job>
grpc::ServerUnaryReactor* RunCall(const CallContext& context,
                                  const CallerReader& callers,
                                  ReplyWatch& replies,
                                  grpc::CallbackServerContext& call,
                                  const grpc::ByteBuffer& request,
                                  grpc::ByteBuffer& response) {
  auto* reactor = new CallReactor<Job>(context, replies, call,
                                       callers.Read(call), &response);
  reactor->Run(const_cast<grpc::ByteBuffer&>(request));
  return reactor;
}

}  // namespace attn
