#include "server/rpc/short_call.h"

#include <utility>

#include "server/rpc/memory_guard.h"
#include "server/rpc/message_size.h"
#include "server/rpc/request_id.h"
#include "server/rpc/watched_reactor.h"

namespace attn {

ShortCall::ShortCall(const ShortCallContext& context, const char* method,
                     Caller caller, const grpc::ByteBuffer& request)
    : context_(context),
      caller_(std::move(caller)),
      arrived_(context.clock.Now()) {
  record_.method = method;
  record_.request_id = MakeRequestId();
  record_.trace_id = caller_.trace_id;
  record_.tenant = caller_.tenant.name;
  record_.received_bytes = static_cast<int64_t>(request.Length());
  // What throws before it has not begun, and never ends.
  context_.observer.Started();
}

absl::Status ShortCall::CheckRequest() const {
  if (!caller_.status.ok()) return caller_.status;
  return CheckMessageSize("a request", record_.received_bytes,
                          context_.max_message_bytes);
}

absl::Status ShortCall::CheckResponse(int64_t bytes) const {
  return CheckMessageSize("a response", bytes, context_.max_message_bytes);
}

absl::Status ShortCall::End(const absl::Status& status,
                            const grpc::ByteBuffer& response) {
  record_.status = status;
  record_.sent_bytes = static_cast<int64_t>(response.Length());
  record_.total = context_.clock.Now() - arrived_;
  context_.observer.Ended(record_);
  return status;
}

grpc::ServerUnaryReactor* ServeShort(const ShortCallContext& context,
                                     const char* method,
                                     const ShortAnswer& answer,
                                     grpc::CallbackServerContext& call,
                                     const grpc::ByteBuffer& request,
                                     grpc::ByteBuffer& response) {
  Caller caller = context.callers.Read(call);
  const absl::Time deadline = caller.deadline;
  ShortCall scope(context, method, std::move(caller), request);
  absl::Status status = scope.CheckRequest();
  if (status.ok()) status = CheckMetadataSize(request.Length());
  if (status.ok()) {
    auto message = RefusingMemory(
        [&] { return answer(const_cast<grpc::ByteBuffer&>(request), scope); });
    status = message.status();
    if (message.ok()) response = *std::move(message);
  }
  return ReplyNow(context.replies, call, deadline, response,
                  scope.End(status, response));
}

}  // namespace attn
