#include "server/rpc/attention_service.h"

#include <utility>

#include "server/batching/refusal.h"
#include "server/rpc/attend_job.h"
#include "server/rpc/backward_job.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/call_reactor.h"
#include "server/rpc/caller.h"
#include "server/rpc/inspect_job.h"
#include "server/rpc/message_size.h"

namespace attn {
grpc::ServerUnaryReactor* AttentionService::Attend(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return RunJob<AttendJob>(*call, *request, *response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
AttentionService::AttendStream(grpc::CallbackServerContext* call) {
  return streams_.Serve(context_, stream_options_, callers_, *call);
}

void AttentionService::EndStreams() {
  streams_.EndAll(Refuse(Refusal::kDraining, "the server is stopping"));
}

grpc::ServerUnaryReactor* AttentionService::Inspect(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return RunJob<InspectJob>(*call, *request, *response);
}

grpc::ServerUnaryReactor* AttentionService::AttendBackward(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return RunJob<BackwardJob>(*call, *request, *response);
}

grpc::ServerUnaryReactor* AttentionService::Plan(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [this](grpc::ByteBuffer& bytes,
             ShortCall& scope) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::PlanRequest message;
    if (!ParseMessage(bytes, message)) return MalformedMessage("PlanRequest");
    auto plan = plan_handler_.Handle(message, scope.record());
    if (!plan.ok()) return plan.status();
    return ToByteBuffer(*plan);
  };
  return ServeShort(short_calls_, "Plan", answer, *call, *request, *response);
}

grpc::ServerUnaryReactor* AttentionService::GetServerInfo(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [this](grpc::ByteBuffer& bytes,
             ShortCall&) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::GetServerInfoRequest message;
    if (!ParseMessage(bytes, message)) {
      return MalformedMessage("GetServerInfoRequest");
    }
    return ToByteBuffer(info_);
  };
  return ServeShort(short_calls_, "GetServerInfo", answer, *call, *request,
                    *response);
}

template <typename Job>
grpc::ServerUnaryReactor* AttentionService::RunJob(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& request,
    grpc::ByteBuffer& response) {
  return RunCall<Job>(context_, callers_, replies_, call, request, response);
}

}  // namespace attn
