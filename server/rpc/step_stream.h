// StepStream: steps of one connection, one after the other.
#pragma once

#include <set>

#include "absl/status/status.h"
#include "engine/runtime/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/call_context.h"
#include "server/rpc/caller.h"
#include "server/rpc/reply_watch.h"

namespace attn {

// One open stream.
class StepStreamReactor;

// The streams of a server, which must all have ended before it goes.
// Thread-safe.
class StepStreams {
 public:
  // Serves a stream until it ends; gRPC owns what is returned. An answer that
  // its client does not take in time, as `replies` has it of a reply after its
  // deadline, ends the stream.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Serve(
      const CallContext& context, const CallerReader& callers,
      ReplyWatch& replies, grpc::CallbackServerContext& call);

  // Ends every stream with `status` as soon as its step is answered, and those
  // that come later at once.
  void EndAll(const absl::Status& status);

 private:
  friend class StepStreamReactor;
  void Remove(StepStreamReactor* stream);

  Mutex mutex_;
  std::set<StepStreamReactor*> open_ ATTN_GUARDED_BY(mutex_);
  absl::Status end_status_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
