#include "server/rpc/attention_service.h"

#include <chrono>
#include <memory>
#include <utility>

#include "server/rpc/byte_buffer.h"
#include "server/rpc/message_size.h"
#include "server/rpc/reply_status.h"
#include "server/rpc/request_id.h"

namespace attn {
namespace {

// gRPC deletes nothing of ours: the reactor deletes itself when gRPC is done
// with it, and the job lives on until the engine is done too.
class AttendReactor : public grpc::ServerUnaryReactor {
 public:
  AttendReactor(const AttendContext& context, absl::Time deadline,
                grpc::ByteBuffer* response)
      : job_(std::make_shared<AttendJob>(
            context, deadline,
            [this, response](const absl::Status& status,
                             grpc::ByteBuffer message) {
              *response = std::move(message);
              Finish(ToReplyStatus(status));
            })) {}

  // The reactor may be gone when this returns, were it not that gRPC waits for
  // the handler to return it.
  void Run(grpc::ByteBuffer& request) { job_->Run(request); }

  void OnCancel() override { job_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<AttendJob> job_;
};

// The handler's request is ours alone; its slices are of no use once the
// payloads are gathered, and keeping them would double the memory of a call.
grpc::ByteBuffer& Own(const grpc::ByteBuffer* request) {
  return *const_cast<grpc::ByteBuffer*>(request);
}

grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& call,
                                    const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(ToReplyStatus(status));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* AttentionService::Attend(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  auto* reactor = new AttendReactor(context_, DeadlineOf(*call), response);
  reactor->Run(Own(request));
  return reactor;
}

grpc::ServerUnaryReactor* AttentionService::Plan(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Answer answer =
      [this](grpc::ByteBuffer& bytes,
             CallRecord& record) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::PlanRequest message;
    if (!ParseMessage(bytes, message)) return MalformedMessage("PlanRequest");
    auto plan = plan_handler_.Handle(message, record);
    if (!plan.ok()) return plan.status();
    return ToByteBuffer(*plan);
  };
  return FinishNow(*call, RunShort("Plan", answer, *request, *response));
}

grpc::ServerUnaryReactor* AttentionService::GetServerInfo(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Answer answer = [this](
                            grpc::ByteBuffer& bytes,
                            CallRecord&) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::GetServerInfoRequest message;
    if (!ParseMessage(bytes, message)) {
      return MalformedMessage("GetServerInfoRequest");
    }
    return ToByteBuffer(info_);
  };
  return FinishNow(*call,
                   RunShort("GetServerInfo", answer, *request, *response));
}

absl::Time AttentionService::DeadlineOf(
    const grpc::CallbackServerContext& call) const {
  const absl::Time now = context_.clock.Now();
  const auto deadline = call.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return now + options_.default_timeout;
  }
  return now + absl::FromChrono(deadline - std::chrono::system_clock::now());
}

absl::Status AttentionService::RunShort(const char* method,
                                        const Answer& answer,
                                        const grpc::ByteBuffer& request,
                                        grpc::ByteBuffer& response) {
  const absl::Time arrived = context_.clock.Now();
  context_.observer.Started();
  CallRecord record;
  record.method = method;
  record.request_id = MakeRequestId();
  record.received_bytes = static_cast<int64_t>(request.Length());
  record.status = CheckMessageSize("a request", record.received_bytes,
                                   context_.max_message_bytes);
  if (record.status.ok()) {
    auto message = answer(Own(&request), record);
    record.status = message.status();
    if (message.ok()) response = *std::move(message);
  }
  record.sent_bytes = static_cast<int64_t>(response.Length());
  record.total = context_.clock.Now() - arrived;
  context_.observer.Ended(record);
  return record.status;
}

}  // namespace attn
