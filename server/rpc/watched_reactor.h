// A unary call of gRPC's whose reply is watched.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/reply_watch.h"

namespace attn {

// Made with new; deletes itself when gRPC is done with it, which it is not
// before the handler has returned it and Reply() was called.
class WatchedReactor : public grpc::ServerUnaryReactor {
 public:
  // `watch` must outlive the gRPC server. The client has until some time after
  // `deadline` to take the reply, `response`, which the call has.
  WatchedReactor(ReplyWatch& watch, grpc::CallbackServerContext& call,
                 absl::Time deadline, const grpc::ByteBuffer& response)
      : watch_(watch), call_(call), deadline_(deadline), response_(response) {}

  // Sends the response, if OK, and the status. Once, on any thread.
  void Reply(const absl::Status& status);
  void OnDone() final;

 protected:
  ~WatchedReactor() override = default;

 private:
  // The end. Not OK: the client did not take the reply.
  virtual void Ended(const absl::Status& /*sent*/) {}
  // gRPC would wake a thread of its own for what is done in OnDone() and
  // OnCancel(), which takes longer than all of it and waits for nothing. The
  // library says so of its own reactors by this hook, which it does not
  // document.
  bool InternalInlineable() override { return true; }

  ReplyWatch& watch_;
  grpc::CallbackServerContext& call_;
  const absl::Time deadline_;
  const grpc::ByteBuffer& response_;
  WatchedReply reply_;
};

// The reactor of a call that is over already.
grpc::ServerUnaryReactor* ReplyNow(ReplyWatch& watch,
                                   grpc::CallbackServerContext& call,
                                   absl::Time deadline,
                                   const grpc::ByteBuffer& response,
                                   const absl::Status& status);

}  // namespace attn
