#include "client/library/session_stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "client/library/call_status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/codec/attend_stream_codec.h"

namespace attn {
namespace {

using google::protobuf::io::CodedInputStream;
using StepAnswer = v1::StepStreamResponse;

// A condition variable's clock cannot count to infinity.
constexpr absl::Duration kLongestAnswer = absl::Hours(24);
// How long a stream whose steps were all answered may take to end by itself.
constexpr absl::Duration kFarewell = absl::Seconds(1);

absl::Status UnreadableAnswer() {
  return absl::InternalError("an answer on the stream cannot be read");
}

// Which of the answer's fields this is, and how many bytes it has, where
// `reader` then stands. 0: none that is known.
int ReadAnswerHead(grpc::ProtoBufferReader& reader, int64_t size,
                   uint32_t& body) {
  CodedInputStream input(&reader);
  const uint32_t tag = input.ReadTag();
  constexpr uint32_t kDelimited = 2;
  constexpr uint32_t kWireTypeBits = 3;
  if ((tag & ((1U << kWireTypeBits) - 1)) != kDelimited ||
      !input.ReadVarint32(&body) ||
      input.CurrentPosition() + int64_t{body} != size) {
    return 0;
  }
  return static_cast<int>(tag >> kWireTypeBits);
}

}  // namespace

absl::StatusOr<StepResult> DecodeStep(const grpc::ByteBuffer& response) {
  if (response.Length() == 0) {
    return absl::InternalError("the answer to a step is empty");
  }
  grpc::ByteBuffer bytes = response;  // The reader wants it mutable.
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok()) {
    return absl::InternalError("the response cannot be read");
  }
  return DecodeStepResponse(reader, static_cast<int64_t>(bytes.Length()));
}

absl::StatusOr<StepResult> DecodeStreamStep(const grpc::ByteBuffer& answer) {
  grpc::ByteBuffer message = answer;  // The reader wants it mutable.
  if (message.Length() == 0) return UnreadableAnswer();
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok()) return UnreadableAnswer();
  uint32_t body = 0;
  const int field =
      ReadAnswerHead(reader, static_cast<int64_t>(message.Length()), body);
  if (field == StepAnswer::kResponseFieldNumber) {
    return DecodeStepResponse(reader, body);
  }
  std::string bytes;
  CodedInputStream input(&reader);
  if (field != StepAnswer::kStatusFieldNumber ||
      !input.ReadString(&bytes, static_cast<int>(body))) {
    return UnreadableAnswer();
  }
  const absl::string_view details(bytes.data(), bytes.size());
  return WithErrorReason(DecodeCallStatus(details), details);
}

// gRPC is held until the stream broke or ends, so that it does not forget the
// reactor between two steps.
class SessionStepStream::Connection final
    : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Connection(const RawChannel& channel, const RawCallOptions& options)
      : channel_(channel),
        answer_deadline_(std::min(options.deadline, kLongestAnswer)) {
    options.route.AddTo(context_);
    channel_.PrepareStream(kStepStreamMethod, context_, this);
    AddHold();
    StartCall();
  }
  ~Connection() override { End(); }

  absl::Status Send(grpc::ByteBuffer message);
  absl::StatusOr<StepResult> Receive();
  bool broken() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return broken_;
  }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void End();
  // What is to be written next, with the lock held; then StartWrite() without.
  bool TakeWrite();
  // Whether the hold is to be given up now, with the lock held.
  bool TakeRelease();
  // Waits until `flag`, at most so long.
  bool WaitFor(absl::Duration timeout, const bool& flag);
  // The read is over and gave nothing.
  absl::Status Broken();

  const RawChannel channel_;
  const absl::Duration answer_deadline_;
  grpc::ClientContext context_;
  grpc::ByteBuffer answer_;
  grpc::ByteBuffer written_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<grpc::ByteBuffer> unsent_;
  int64_t unanswered_ = 0;
  bool writing_ = false;
  bool read_done_ = false;
  bool read_ok_ = false;
  bool broken_ = false;
  bool released_ = false;
  bool done_ = false;
  // Of the stream; why it broke.
  absl::Status status_;
};

absl::Status SessionStepStream::Connection::Send(grpc::ByteBuffer message) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_) return status_;
    unsent_.push_back(std::move(message));
    ++unanswered_;
    if (!TakeWrite()) return absl::OkStatus();
  }
  StartWrite(&written_);
  return absl::OkStatus();
}

absl::StatusOr<StepResult> SessionStepStream::Connection::Receive() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_) return status_;
    if (unanswered_ == 0) {
      return absl::FailedPreconditionError(
          "every step of the stream was answered");
    }
    read_done_ = false;
  }
  StartRead(&answer_);
  const bool late = !WaitFor(answer_deadline_, read_done_);
  if (late) {
    context_.TryCancel();
    WaitFor(absl::InfiniteDuration(), read_done_);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (late) {
      status_ = absl::DeadlineExceededError(
          "the deadline of a step on the stream passed");
    }
    if (read_ok_ && !late) {
      --unanswered_;
      return DecodeStreamStep(answer_);
    }
  }
  return Broken();
}

absl::Status SessionStepStream::Connection::Broken() {
  bool release = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    release = TakeRelease();
  }
  if (release) RemoveHold();
  WaitFor(absl::InfiniteDuration(), done_);
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void SessionStepStream::Connection::End() {
  bool graceful = false;
  bool release = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    graceful = !broken_ && unanswered_ == 0 && !writing_;
    broken_ = true;
    release = TakeRelease();
  }
  if (graceful) StartWritesDone();
  if (!graceful) context_.TryCancel();
  if (release) RemoveHold();
  if (graceful && !WaitFor(kFarewell, done_)) context_.TryCancel();
  WaitFor(absl::InfiniteDuration(), done_);
}

bool SessionStepStream::Connection::TakeWrite() {
  if (writing_ || broken_ || unsent_.empty()) return false;
  writing_ = true;
  written_ = std::move(unsent_.front());
  unsent_.pop_front();
  return true;
}

// A write that was taken is begun without the lock, and needs the hold.
bool SessionStepStream::Connection::TakeRelease() {
  return broken_ && !writing_ && !std::exchange(released_, true);
}

bool SessionStepStream::Connection::WaitFor(absl::Duration timeout,
                                            const bool& flag) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_set = [&flag] { return flag; };
  if (timeout == absl::InfiniteDuration()) {
    changed_.wait(lock, is_set);
    return true;
  }
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), is_set);
}

void SessionStepStream::Connection::OnReadDone(bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  read_done_ = true;
  read_ok_ = ok;
  changed_.notify_all();
}

void SessionStepStream::Connection::OnWriteDone(bool ok) {
  bool release = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    written_.Clear();
    // The end of the stream says why.
    if (!ok) unsent_.clear();
    if (!TakeWrite()) {
      release = TakeRelease();
      if (!release) return;
    }
  }
  // OnDone() may follow at once.
  if (release) {
    RemoveHold();
  } else {
    StartWrite(&written_);
  }
}

void SessionStepStream::Connection::OnDone(const grpc::Status& status) {
  absl::Status ended = FromCallStatus(status, channel_.address());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) status_ = std::move(ended);
  if (status_.ok()) {
    status_ = absl::UnavailableError(
        "the stream ended before its steps were answered");
  }
  done_ = true;
  changed_.notify_all();
}

SessionStepStream::SessionStepStream(const RawChannel& channel,
                                     const RawCallOptions& options)
    : connection_(std::make_unique<Connection>(channel, options)) {}

SessionStepStream::~SessionStepStream() = default;

absl::Status SessionStepStream::Send(const StepMessage& message) {
  return connection_->Send(OwnChunks(EncodeStepStreamRequest(message)));
}

absl::StatusOr<StepResult> SessionStepStream::Receive() {
  return connection_->Receive();
}

bool SessionStepStream::broken() const { return connection_->broken(); }

}  // namespace attn
