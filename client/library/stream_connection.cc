#include "client/library/stream_connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/library/call_status.h"
#include "client/library/stream_encode.h"

namespace attn {
namespace {

// A system clock cannot count to infinity.
constexpr absl::Duration kLongestWait = absl::Hours(24);

std::chrono::system_clock::time_point After(absl::Duration wait) {
  return absl::ToChronoTime(absl::Now() + std::min(wait, kLongestWait));
}

}  // namespace

std::shared_ptr<StreamConnection> StreamConnection::Open(
    const RawChannel& channel, const StreamConnectionOptions& options) {
  std::shared_ptr<StreamConnection> connection(
      new StreamConnection(channel.address(), options));
  StreamConnection& self = *connection;
  self.self_ = connection;
  self.context_ = std::make_shared<grpc::ClientContext>();
  if (options.deadline != absl::InfiniteDuration()) {
    self.context_->set_deadline(After(options.deadline));
  }
  channel.PrepareStream(kAttendStreamMethod, *self.context_, &self);
  // Calls are sent from threads of their own.
  self.AddHold();
  self.StartRead(&self.read_);
  self.StartCall();
  return connection;
}

uint64_t StreamConnection::Send(const Encode& encode, absl::Duration timeout,
                                Done done) {
  uint64_t number = 0;
  const auto alarm = std::make_shared<grpc::Alarm>();
  const auto call = std::make_shared<Call>();
  call->done = std::move(done);
  call->alarm = alarm;
  absl::Status refused;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_ || closing_) {
      refused = status_.ok() ? absl::UnavailableError("the stream was closed")
                             : status_;
    } else {
      // In the order of their numbers, although they are encoded beside each
      // other.
      number = ++last_call_;
      calls_.emplace(number, call);
      waiting_.push_back(number);
    }
  }
  if (!refused.ok()) {
    call->done(refused);
    return number;
  }
  std::vector<grpc::ByteBuffer> messages = encode(number);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    call->ready = true;
    if (call->done != nullptr) call->messages.swap(messages);
  }
  SetAlarm(number, timeout, alarm);
  Pump();
  return number;
}

void StreamConnection::SetAlarm(uint64_t number, absl::Duration timeout,
                                const std::shared_ptr<grpc::Alarm>& alarm) {
  alarm->Set(After(timeout), [weak = weak_from_this(), number](bool fired) {
    const auto self = fired ? weak.lock() : nullptr;
    if (self == nullptr) return;
    self->GiveUp(number, absl::DeadlineExceededError(
                             "the deadline of a call on the stream passed"));
  });
}

void StreamConnection::Cancel(uint64_t call) {
  GiveUp(call, absl::CancelledError("the call was cancelled"));
}

void StreamConnection::GiveUp(uint64_t number, const absl::Status& why) {
  Done done;
  std::shared_ptr<grpc::Alarm> alarm;
  std::vector<grpc::ByteBuffer> unsent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(number);
    if (found == calls_.end() || found->second->done == nullptr) return;
    Call& call = *found->second;
    done = TakeDone(call);
    alarm = std::move(call.alarm);
    unsent.swap(call.messages);
    if (call.next > 0) {
      cancels_.push_back(number);
    } else {
      if (call.open) --open_;
      calls_.erase(found);
    }
  }
  unsent.clear();
  Tell(done, why);
  Pump();
}

StreamConnection::Done StreamConnection::TakeDone(Call& call) {
  if (call.done != nullptr) ++telling_;
  return std::exchange(call.done, nullptr);
}

void StreamConnection::Tell(const Done& done,
                            absl::StatusOr<AttendResult> result) {
  if (done == nullptr) return;
  done(std::move(result));
  const std::lock_guard<std::mutex> lock(mutex_);
  --telling_;
  ended_changed_.notify_all();
}

void StreamConnection::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  Pump();
}

void StreamConnection::Abort() {
  std::shared_ptr<grpc::ClientContext> context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    context = context_;
  }
  if (context != nullptr) context->TryCancel();
}

absl::Status StreamConnection::WaitUntilEnded() {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_changed_.wait(lock, [this] { return ended_ && telling_ == 0; });
  return status_;
}

// ----------------------------------------------------------------- reactions

void StreamConnection::OnReadDone(bool ok) {
  if (!ok) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      broken_ = true;
    }
    Pump();
    return;
  }
  // What cannot be told to a call ends the stream.
  if (!Handle(read_).ok()) Abort();
  read_.Clear();
  StartRead(&read_);
}

void StreamConnection::OnWriteDone(bool ok) {
  grpc::ByteBuffer written;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    written.Swap(&written_);
    // The end of the stream says why.
    if (!ok) sending_.clear();
  }
  written.Clear();
  Pump();
}

void StreamConnection::OnDone(const grpc::Status& status) {
  const auto self = std::move(self_);
  std::map<uint64_t, CallPtr> unanswered;
  std::shared_ptr<grpc::ClientContext> context;
  absl::Status failed = FromCallStatus(status, address_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    status_ = failed;
    unanswered.swap(calls_);
    context.swap(context_);
  }
  // There is nothing left to cancel.
  context.reset();
  if (failed.ok()) {
    failed =
        absl::UnavailableError("the stream ended before the call was answered");
  }
  for (const auto& [number, call] : unanswered) {
    Done done;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done = TakeDone(*call);
      call->messages.clear();
    }
    Tell(done, failed);
  }
  unanswered.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

absl::Status StreamConnection::Handle(grpc::ByteBuffer& message) {
  const auto part = ReadAnswerMessage(message);
  if (!part.ok()) return part.status();
  CallPtr call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(part->call);
    if (found == calls_.end()) {
      // The rest of an answer that was refused here.
      if (part->call <= last_call_) return absl::OkStatus();
      return absl::InternalError("an answer to no call came on the stream");
    }
    call = found->second;
  }
  const absl::Status status =
      call->answer.Take(*part, message, options_.max_response_bytes);
  if (!status.ok() || call->answer.done()) Answer(part->call, status);
  return absl::OkStatus();
}

void StreamConnection::Answer(uint64_t number, const absl::Status& status) {
  CallPtr call;
  Done done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(number);
    if (found == calls_.end()) return;
    call = std::move(found->second);
    calls_.erase(found);
    if (call->open) --open_;
    done = TakeDone(*call);
    call->messages.clear();
  }
  if (status.ok()) {
    Tell(done, call->answer.TakeResult());
  } else {
    Tell(done, status);
  }
  Pump();
}

// --------------------------------------------------------------------- steps

void StreamConnection::OpenWaiting() {
  while (!waiting_.empty() && open_ < options_.max_calls) {
    const uint64_t number = waiting_.front();
    const auto found = calls_.find(number);
    if (found != calls_.end()) {
      if (!found->second->ready) return;
      found->second->open = true;
      ++open_;
      sending_.push_back(number);
    }
    waiting_.pop_front();
  }
}

bool StreamConnection::TakeMessage() {
  while (!cancels_.empty()) {
    const uint64_t number = cancels_.front();
    cancels_.pop_front();
    if (calls_.find(number) == calls_.end()) continue;
    written_ = EncodeStreamCancel(number);
    return true;
  }
  while (!sending_.empty()) {
    const uint64_t number = sending_.front();
    sending_.pop_front();
    const auto found = calls_.find(number);
    if (found == calls_.end()) continue;
    Call& call = *found->second;
    if (call.next >= call.messages.size()) continue;
    written_.Swap(&call.messages[call.next++]);
    if (call.next < call.messages.size()) sending_.push_back(number);
    return true;
  }
  return false;
}

StreamConnection::Step StreamConnection::NextStep() {
  if (released_ || writing_) return Step::kNone;
  if (broken_) {
    released_ = true;
    return Step::kRelease;
  }
  if (writes_done_) return Step::kNone;
  OpenWaiting();
  if (TakeMessage()) {
    writing_ = true;
    return Step::kWrite;
  }
  if (!closing_ || !calls_.empty()) return Step::kNone;
  writes_done_ = true;
  return Step::kWritesDone;
}

void StreamConnection::Pump() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(pumping_, true)) return;
  }
  while (true) {
    Step step = Step::kNone;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      step = NextStep();
      if (step == Step::kNone) {
        pumping_ = false;
        return;
      }
    }
    if (step == Step::kWrite) StartWrite(&written_);
    if (step == Step::kWritesDone) StartWritesDone();
    if (step == Step::kRelease) {
      // OnDone() may follow at once.
      RemoveHold();
      return;
    }
  }
}

}  // namespace attn
