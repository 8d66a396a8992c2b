#include "server/rpc/step_stream.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attention/v1/session.pb.h"
#include "proto/codec/chunk_writer.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/reply_status.h"
#include "server/rpc/step_job.h"

namespace attn {
namespace {

using Bidi = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// StepStreamResponse{response}: the bytes of the message behind a tag and a
// length.
grpc::ByteBuffer WrapResponse(const grpc::ByteBuffer& response) {
  std::string head;
  AppendDelimiter(v1::StepStreamResponse::kResponseFieldNumber,
                  response.Length(), head);
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) slices.clear();
  slices.insert(slices.begin(), grpc::Slice(head));
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer WrapStatus(const absl::Status& status) {
  v1::StepStreamResponse message;
  // The same message under another name.
  message.mutable_status()->ParseFromString(
      ToReplyStatus(status).error_details());
  return ToByteBuffer(message);
}

}  // namespace

// Reads a step, has it computed, writes its answer, and reads on: one at a
// time. No step is begun once the stream is ended, and it is not ended while
// there is one. Deletes itself when gRPC is done with it.
class StepStreamReactor final : public Bidi {
 public:
  StepStreamReactor(StepStreams& streams, const CallContext& context,
                    ReplyWatch& replies, grpc::CallbackServerContext& call,
                    Caller caller,
                    std::function<absl::StatusOr<Tenant>()> identify)
      : streams_(streams),
        context_(context),
        replies_(replies),
        call_(call),
        caller_(std::move(caller)),
        identify_(std::move(identify)) {}

  void Begin() {
    if (caller_.status.ok()) {
      StartRead(&received_);
    } else {
      End(caller_.status);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return FinishOnce(absl::OkStatus());
    {
      // A message may come although the stream was just ended.
      MutexLock lock(mutex_);
      if (finished_) return;
      stepping_ = true;
    }
    if (identify_ != nullptr) {
      auto tenant = identify_();
      caller_.status = tenant.status();
      if (tenant.ok()) caller_.tenant = *std::move(tenant);
    }
    const auto job = std::make_shared<StepJob>(
        context_, caller_,
        [this](const absl::Status& status, grpc::ByteBuffer& message) {
          answer_ = status.ok() ? WrapResponse(message) : WrapStatus(status);
          // From now on, whatever time the step had left.
          replies_.Sending(watched_, call_, absl::InfinitePast(),
                           static_cast<int64_t>(answer_.Length()));
          StartWrite(&answer_);
        },
        StepJob::Envelope::kStream);
    {
      MutexLock lock(mutex_);
      job_ = job;
    }
    job->Run(received_);
    if (cancelled()) job->Cancel();
  }

  void OnWriteDone(bool ok) override {
    absl::Status lost = replies_.Sent(watched_);
    if (!ok && lost.ok()) lost = absl::CancelledError("the client is gone");
    std::shared_ptr<StepJob> job;
    std::optional<absl::Status> end;
    {
      MutexLock lock(mutex_);
      job = std::move(job_);
      job_ = nullptr;
      stepping_ = false;
      end = end_status_;
    }
    if (!lost.ok()) job->NoteLost(lost);
    job->Report();
    answer_.Clear();
    if (!lost.ok()) {
      FinishOnce(lost);
    } else if (end.has_value()) {
      FinishOnce(*end);
    } else {
      // If the stream was ended meanwhile, there is nothing to read.
      StartRead(&received_);
    }
  }

  void OnCancel() override {
    std::shared_ptr<StepJob> job;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      job = job_;
    }
    if (job != nullptr) job->Cancel();
  }

  void OnDone() override {
    streams_.Remove(this);
    delete this;
  }

  // At once, or when the step that is computed is answered.
  void End(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      end_status_ = status;
      if (stepping_) return;
    }
    FinishOnce(status);
  }

 private:
  bool cancelled() {
    MutexLock lock(mutex_);
    return cancelled_;
  }
  void FinishOnce(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      if (std::exchange(finished_, true)) return;
    }
    Finish(ToReplyStatus(status));
  }

  StepStreams& streams_;
  const CallContext& context_;
  ReplyWatch& replies_;
  grpc::CallbackServerContext& call_;
  Caller caller_;
  const std::function<absl::StatusOr<Tenant>()> identify_;
  grpc::ByteBuffer received_;
  grpc::ByteBuffer answer_;
  WatchedReply watched_;
  Mutex mutex_;
  // From a step's arrival until its answer is sent.
  bool stepping_ ATTN_GUARDED_BY(mutex_) = false;
  // It, unless it has just come.
  std::shared_ptr<StepJob> job_ ATTN_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_status_ ATTN_GUARDED_BY(mutex_);
  bool cancelled_ ATTN_GUARDED_BY(mutex_) = false;
  bool finished_ ATTN_GUARDED_BY(mutex_) = false;
};

Bidi* StepStreams::Serve(const CallContext& context,
                         const CallerReader& callers, ReplyWatch& replies,
                         grpc::CallbackServerContext& call) {
  Caller caller = callers.ReadStream(call);
  StepStreamReactor* reactor = nullptr;
  {
    MutexLock lock(mutex_);
    if (!end_status_.ok()) caller.status.Update(end_status_);
    reactor =
        new StepStreamReactor(*this, context, replies, call, std::move(caller),
                              callers.IdentifyLater(call));
    open_.insert(reactor);
  }
  // gRPC deletes nothing before the handler has returned the reactor.
  reactor->Begin();
  return reactor;
}

void StepStreams::Remove(StepStreamReactor* stream) {
  MutexLock lock(mutex_);
  open_.erase(stream);
}

void StepStreams::EndAll(const absl::Status& status) {
  // Held over all: a stream that ends waits for it before it goes.
  MutexLock lock(mutex_);
  end_status_ = status;
  for (StepStreamReactor* stream : open_) stream->End(status);
}

}  // namespace attn
