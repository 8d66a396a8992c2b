// What every short RPC shares: its record, the bound on its messages, its line
// of the log.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/call_observer.h"
#include "server/rpc/caller.h"
#include "server/rpc/reply_watch.h"

namespace attn {

// Borrowed; must outlive the calls, which the gRPC server ends.
struct ShortCallContext {
  CallObserver& observer;
  const Clock& clock;
  const CallerReader& callers;
  ReplyWatch& replies;
  // Of a request and of a response.
  int64_t max_message_bytes = int64_t{256} << 20;
};

// One call, from its arrival to its end, on whatever threads. Move it along;
// End() once. Thread-compatible.
class ShortCall {
 public:
  ShortCall(const ShortCallContext& context, const char* method, Caller caller,
            const grpc::ByteBuffer& request);

  // Refuses a caller who must not be let in, and a request that is too long.
  absl::Status CheckRequest() const;
  // Refuses a response that would be too long.
  absl::Status CheckResponse(int64_t bytes) const;
  const Caller& caller() const { return caller_; }
  CallRecord& record() { return record_; }
  // Tells metrics and log, and gives the status back.
  absl::Status End(const absl::Status& status,
                   const grpc::ByteBuffer& response);

 private:
  const ShortCallContext& context_;
  const Caller caller_;
  const absl::Time arrived_;
  CallRecord record_;
};

// `answer` may empty the request, which is the handler's alone. When it throws
// std::bad_alloc, the call is refused as one that there is no memory for.
using ShortAnswer = std::function<absl::StatusOr<grpc::ByteBuffer>(
    grpc::ByteBuffer& request, ShortCall& call)>;

// Runs a method to its end on this thread, if its request is no longer than
// those without payloads may be. Returns what its handler is to return.
grpc::ServerUnaryReactor* ServeShort(const ShortCallContext& context,
                                     const char* method,
                                     const ShortAnswer& answer,
                                     grpc::CallbackServerContext& call,
                                     const grpc::ByteBuffer& request,
                                     grpc::ByteBuffer& response);

}  // namespace attn
