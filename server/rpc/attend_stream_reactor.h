// AttendStream on gRPC's callback API.
#pragma once

#include <list>
#include <memory>

#include "absl/status/status.h"
#include "engine/runtime/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_stream_calls.h"

namespace attn {

// The streams of a server. Thread-safe.
class AttendStreams {
 public:
  // Serves a stream until it ends; gRPC owns what is returned.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Serve(
      const CallContext& context, const AttendStreamOptions& options,
      const CallerReader& callers, grpc::CallbackServerContext& call);

  // Ends every stream with `status` as soon as its open calls are answered, and
  // those that come later at once.
  void EndAll(const absl::Status& status);

 private:
  Mutex mutex_;
  std::list<std::weak_ptr<AttendStreamCalls>> streams_ ATTN_GUARDED_BY(mutex_);
  absl::Status end_status_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
