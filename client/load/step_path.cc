#include "client/load/step_path.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "client/library/call_status.h"
#include "client/library/session_client.h"
#include "client/library/session_stream.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"

namespace attn {
namespace {

class UnarySteps final : public StepPath {
 public:
  UnarySteps(const RawChannel& channel, absl::Duration deadline)
      : channel_(channel), deadline_(deadline) {}

  void Step(const StepMessage& message, StepDone done) override {
    channel_.CallAsync(
        kStepMethod, OwnChunks(EncodeStepRequest(message)),
        {.deadline = deadline_},
        [channel = channel_, done = std::move(done)](
            const absl::Status& status, const grpc::ByteBuffer& response) {
          if (status.ok()) {
            done(DecodeStep(response));
          } else {
            done(status);
          }
        });
  }

 private:
  const RawChannel channel_;
  const absl::Duration deadline_;
};

// One stream of steps, which keeps itself until gRPC is done with it. A hold
// keeps gRPC from forgetting it between two steps. Thread-safe.
class StepStreamCall final
    : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<StepStreamCall> {
 public:
  static std::shared_ptr<StepStreamCall> Open(const RawChannel& channel) {
    std::shared_ptr<StepStreamCall> call(new StepStreamCall(channel));
    call->self_ = call;
    channel.PrepareStream(kStepStreamMethod, call->context_, call.get());
    call->AddHold();
    call->StartCall();
    return call;
  }

  // False: the stream is over, and `done` stays the caller's.
  bool Step(grpc::ByteBuffer bytes, absl::Duration deadline,
            StepPath::StepDone& done);
  // Of the last user: lets the stream end.
  void Leave();

 private:
  explicit StepStreamCall(const RawChannel& channel) : channel_(channel) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // With the lock held: cancels the stream at that time, unless the alarm is
  // taken away before.
  void CancelAfter(absl::Duration wait);
  // With the lock held: what is to be written is, once the last write is over.
  bool TakeNextWrite();
  // Gives the hold up once nothing else is to be started. True: do it, without
  // the lock.
  bool TakeHold();

  const RawChannel channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer answer_;
  grpc::ByteBuffer written_;

  std::mutex mutex_;
  std::shared_ptr<StepStreamCall> self_;
  std::unique_ptr<grpc::Alarm> alarm_;
  // Of alarms and answers.
  int64_t turn_ = 0;
  StepPath::StepDone done_;
  grpc::ByteBuffer next_;
  bool has_next_ = false;
  bool writing_ = false;
  bool over_ = false;
  bool held_ = true;
  bool late_ = false;
};

bool StepStreamCall::Step(grpc::ByteBuffer bytes, absl::Duration deadline,
                          StepPath::StepDone& done) {
  bool write = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (over_) return false;
    done_ = std::move(done);
    next_ = std::move(bytes);
    has_next_ = true;
    CancelAfter(deadline);
    write = TakeNextWrite();
  }
  StartRead(&answer_);
  if (write) StartWrite(&written_);
  return true;
}

void StepStreamCall::Leave() {
  // How long a stream whose steps were all answered may take to end by itself.
  constexpr absl::Duration kFarewell = absl::Seconds(1);
  bool release = false;
  bool graceful = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    graceful = !over_ && !writing_;
    over_ = true;
    if (graceful) CancelAfter(kFarewell);
    release = TakeHold();
  }
  if (graceful) {
    StartWritesDone();
  } else {
    context_.TryCancel();
  }
  if (release) RemoveHold();
}

void StepStreamCall::CancelAfter(absl::Duration wait) {
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(absl::ToChronoTime(absl::Now() + wait),
              [self = shared_from_this(), turn = ++turn_](bool fired) {
                if (!fired) return;
                {
                  const std::lock_guard<std::mutex> lock(self->mutex_);
                  // Of a step that was answered meanwhile.
                  if (self->turn_ != turn) return;
                  self->late_ = true;
                }
                self->context_.TryCancel();
              });
}

bool StepStreamCall::TakeNextWrite() {
  if (writing_ || over_ || !has_next_) return false;
  has_next_ = false;
  writing_ = true;
  written_ = std::move(next_);
  return true;
}

bool StepStreamCall::TakeHold() {
  return over_ && !writing_ && std::exchange(held_, false);
}

void StepStreamCall::OnReadDone(bool ok) {
  StepPath::StepDone done;
  bool release = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ok) {
      alarm_.reset();
      ++turn_;
      done = std::exchange(done_, nullptr);
    } else {
      over_ = true;
      release = TakeHold();
    }
  }
  if (release) RemoveHold();
  // Why there is no answer, OnDone() says.
  if (ok) done(DecodeStreamStep(answer_));
}

void StepStreamCall::OnWriteDone(bool /*ok*/) {
  bool write = false;
  bool release = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    written_.Clear();
    write = TakeNextWrite();
    release = TakeHold();
  }
  if (write) StartWrite(&written_);
  if (release) RemoveHold();
}

void StepStreamCall::OnDone(const grpc::Status& status) {
  StepPath::StepDone done;
  std::shared_ptr<StepStreamCall> self;
  absl::Status ended = FromCallStatus(status, channel_.address());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    alarm_.reset();
    done = std::exchange(done_, nullptr);
    self = std::move(self_);
    if (late_) {
      ended = absl::DeadlineExceededError(
          "the deadline of a step on the stream passed");
    }
  }
  if (ended.ok()) {
    ended =
        absl::UnavailableError("the stream ended before its step was answered");
  }
  if (done) done(ended);
}

class StreamedSteps final : public StepPath {
 public:
  StreamedSteps(const RawChannel& channel, absl::Duration deadline)
      : channel_(channel), deadline_(deadline) {}
  ~StreamedSteps() override {
    if (stream_ != nullptr) stream_->Leave();
  }

  void Step(const StepMessage& message, StepDone done) override {
    const grpc::ByteBuffer bytes = OwnChunks(EncodeStepStreamRequest(message));
    // A stream that is new may be over before its first step.
    while (stream_ == nullptr || !stream_->Step(bytes, deadline_, done)) {
      stream_ = StepStreamCall::Open(channel_);
    }
  }

 private:
  const RawChannel channel_;
  const absl::Duration deadline_;
  std::shared_ptr<StepStreamCall> stream_;
};

}  // namespace

std::unique_ptr<StepPath> MakeUnarySteps(const RawChannel& channel,
                                         absl::Duration deadline) {
  return std::make_unique<UnarySteps>(channel, deadline);
}

std::unique_ptr<StepPath> MakeStreamedSteps(const RawChannel& channel,
                                            absl::Duration deadline) {
  return std::make_unique<StreamedSteps>(channel, deadline);
}

}  // namespace attn
