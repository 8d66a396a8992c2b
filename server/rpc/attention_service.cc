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
#include "server/rpc/reply_status.h"

namespace attn {
namespace {

// gRPC deletes nothing of ours: the reactor deletes itself when gRPC is done
// with it, and the job lives on until the engine is done too.
template <typename Job>
class CallReactor final : public grpc::ServerUnaryReactor {
 public:
  CallReactor(const CallContext& context, Caller caller,
              grpc::ByteBuffer* response)
      : job_(std::make_shared<Job>(context, std::move(caller),
                                   [this, response](const absl::Status& status,
                                                    grpc::ByteBuffer& message) {
                                     response->Swap(&message);
                                     Finish(ToReplyStatus(status));
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
  void OnDone() override {
    job_->Report();
    delete this;
  }

 private:
  // gRPC would wake a thread of its own for what comes above, which takes
  // longer than all of it and waits for nothing. The library says so of its own
  // reactors by this hook, which it does not document.
  bool InternalInlineable() override { return true; }

  const std::shared_ptr<Job> job_;
  std::atomic<bool> made_{false};
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
    absl::Status small = CheckMetadataSize(bytes.Length());
    if (!small.ok()) return small;
    v1::PlanRequest message;
    if (!ParseMessage(bytes, message)) return MalformedMessage("PlanRequest");
    auto plan = plan_handler_.Handle(message, scope.record());
    if (!plan.ok()) return plan.status();
    return ToByteBuffer(*plan);
  };
  return FinishNow(*call, RunShortCall({short_calls_, "Plan",
                                        callers_.Read(*call), *request},
                                       answer, *request, *response));
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
  return FinishNow(*call, RunShortCall({short_calls_, "GetServerInfo",
                                        callers_.Read(*call), *request},
                                       answer, *request, *response));
}

template <typename Job>
grpc::ServerUnaryReactor* AttentionService::RunJob(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& request,
    grpc::ByteBuffer& response) {
  auto* reactor =
      new CallReactor<Job>(context_, callers_.Read(call), &response);
  reactor->Run(Own(&request));
  return reactor;
}

}  // namespace attn
