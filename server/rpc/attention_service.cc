#include "server/rpc/attention_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "server/batching/refusal.h"
#include "server/rpc/attend_job.h"
#include "server/rpc/backward_job.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/caller.h"
#include "server/rpc/inspect_job.h"
#include "server/rpc/message_size.h"
#include "server/rpc/watched_reactor.h"

namespace attn {
namespace {

// The job lives on, when gRPC is done with the reactor, until the engine is
// done too.
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

// The handler's request is ours alone; its slices are of no use once the
// payloads are gathered, and keeping them would double the memory of a call.
grpc::ByteBuffer& Own(const grpc::ByteBuffer* request) {
  return *const_cast<grpc::ByteBuffer*>(request);
}

}  // namespace

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
  return RunShort("Plan", answer, *call, *request, *response);
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
  return RunShort("GetServerInfo", answer, *call, *request, *response);
}

grpc::ServerUnaryReactor* AttentionService::RunShort(
    const char* method, const ShortAnswer& answer,
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& request,
    grpc::ByteBuffer& response) {
  Caller caller = callers_.Read(call);
  const absl::Time deadline = caller.deadline;
  return ReplyNow(
      replies_, call, deadline, response,
      RunShortCall({short_calls_, method, std::move(caller), request}, answer,
                   request, response));
}

template <typename Job>
grpc::ServerUnaryReactor* AttentionService::RunJob(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& request,
    grpc::ByteBuffer& response) {
  auto* reactor = new CallReactor<Job>(context_, replies_, call,
                                       callers_.Read(call), &response);
  reactor->Run(Own(&request));
  return reactor;
}

}  // namespace attn
