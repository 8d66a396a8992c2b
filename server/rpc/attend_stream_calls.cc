#include "server/rpc/attend_stream_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/request_id.h"

namespace attn {

AttendStreamCalls::AttendStreamCalls(const CallContext& context,
                                     const AttendStreamOptions& options,
                                     Caller caller, StreamTransport& transport,
                                     Identify identify)
    : context_(context),
      options_(options),
      caller_(std::move(caller)),
      transport_(transport),
      identify_(std::move(identify)),
      arrived_(context.clock.Now()) {}

void AttendStreamCalls::Begin() {
  if (caller_.status.ok()) {
    Pump();
  } else {
    Fault(caller_.status);
  }
}

void AttendStreamCalls::Received(grpc::ByteBuffer& message) {
  grpc::ByteBuffer taken;
  taken.Swap(&message);
  const absl::Time now = context_.clock.Now();
  bool wanted = false;
  {
    MutexLock lock(mutex_);
    arrived_ = now;
    is_receiving_ = false;
    is_handling_ = true;
    wanted = !gone_ && !ending_;
  }
  const Job ready = wanted ? Handle(taken) : nullptr;
  {
    MutexLock lock(mutex_);
    is_handling_ = false;
  }
  // Reads on while a call is decoded and, if it is small, computed here.
  Pump();
  if (ready != nullptr) Start(ready, taken);
}

void AttendStreamCalls::ReceivedLast() {
  std::vector<OpenStreamCall> given_up;
  {
    MutexLock lock(mutex_);
    is_receiving_ = false;
    received_last_ = true;
    given_up = ClaimAll();
  }
  // gRPC may say so before it says that the client is gone: one code for both.
  for (const OpenStreamCall& call : given_up) {
    call.job->Abandon(absl::CancelledError(
        absl::StrCat("the client sends no more; ",
                     call.job->assembly().CheckComplete().message())));
  }
  Pump();
}

void AttendStreamCalls::Sent() {
  // Its memory is let go without the lock.
  QueuedAnswer sent;
  {
    MutexLock lock(mutex_);
    is_sending_ = false;
    sending_.messages[sending_.next++].Clear();
    sent = std::exchange(sending_, {});
    if (sent.next < sent.messages.size()) {
      if (!gone_) {
        answers_.push_back(std::exchange(sent, {}));
      } else if (sent.job != nullptr) {
        sent.job->NoteLost(lost_);
      }
    }
  }
  Pump();
  if (sent.job != nullptr) sent.job->Report();
}

void AttendStreamCalls::NotSent() {
  Gone();
  QueuedAnswer lost;
  {
    MutexLock lock(mutex_);
    is_sending_ = false;
    lost = std::exchange(sending_, {});
    if (lost.job != nullptr) lost.job->NoteLost(lost_);
  }
  Pump();
  if (lost.job != nullptr) lost.job->Report();
}

void AttendStreamCalls::Gone() {
  Lose(absl::CancelledError("the client is gone"));
}

void AttendStreamCalls::Lose(const absl::Status& why) {
  std::vector<OpenStreamCall> given_up;
  std::vector<Job> running;
  std::deque<QueuedAnswer> unsent;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(gone_, true)) lost_ = why;
    given_up = ClaimAll();
    for (const auto& [number, call] : calls_) {
      if (call.under_way) running.push_back(call.job);
    }
    unsent.swap(answers_);
  }
  for (const OpenStreamCall& call : given_up) call.job->Abandon(why);
  for (const Job& job : running) job->Cancel();
  for (const QueuedAnswer& answer : unsent) {
    if (answer.job == nullptr) continue;
    answer.job->NoteLost(why);
    answer.job->Report();
  }
  Pump();
}

void AttendStreamCalls::EndWith(const absl::Status& status) {
  std::vector<OpenStreamCall> given_up;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(ending_, true)) end_status_ = status;
    given_up = ClaimAll();
  }
  for (const OpenStreamCall& call : given_up) call.job->Abandon(status);
  Pump();
}

void AttendStreamCalls::Fault(const absl::Status& status) {
  CallRecord record;
  record.method = AttendStreamJob::kMethod;
  record.request_id = MakeRequestId();
  record.trace_id = caller_.trace_id;
  record.tenant = caller_.tenant.name;
  record.total = context_.clock.Now() - arrived_;
  record.status = status;
  context_.observer.Started();
  context_.observer.Ended(record);
  EndWith(status);
}

void AttendStreamCalls::Replied(uint64_t call, const absl::Status& status,
                                grpc::ByteBuffer& response) {
  // Let go without the lock.
  OpenStreamCall open;
  QueuedAnswer answer;
  bool ends_here = false;
  {
    MutexLock lock(mutex_);
    auto node = calls_.extract(call);
    open = std::move(node.mapped());
    open.fault.Update(status);
    answer = MakeAnswer(call, open, response);
    if (gone_) open.fault.Update(lost_);
    if (!gone_) answers_.push_back(std::exchange(answer, {}));
    ends_here = !open.fault.ok();
    // The stream must not end before the call has left.
    if (ends_here) ++leaving_;
  }
  Pump();
  if (!ends_here) return;
  if (status != open.fault) open.job->NoteLost(open.fault);
  open.job->Report();
  open = {};
  answer = {};
  {
    MutexLock lock(mutex_);
    --leaving_;
  }
  Pump();
}

QueuedAnswer AttendStreamCalls::MakeAnswer(uint64_t call, OpenStreamCall& open,
                                           grpc::ByteBuffer& response) {
  QueuedAnswer answer;
  if (!open.fault.ok()) {
    answer.messages.push_back(EncodeFailure(call, open.fault));
    return answer;
  }
  answer.messages.emplace_back().Swap(&response);
  for (grpc::ByteBuffer& message : open.job->TakeMoreMessages()) {
    answer.messages.emplace_back().Swap(&message);
  }
  answer.job = open.job;
  answer.send_by = open.job->deadline() + options_.send_grace;
  return answer;
}

OpenStreamCall AttendStreamCalls::Claim(OpenStreamCall& call) {
  call.collecting = false;
  call.given_up = true;
  --collecting_;
  OpenStreamCall claimed;
  claimed.job = call.job;
  claimed.alarm = std::move(call.alarm);
  return claimed;
}

std::vector<OpenStreamCall> AttendStreamCalls::ClaimAll() {
  std::vector<OpenStreamCall> claimed;
  for (auto& [number, call] : calls_) {
    if (call.collecting) claimed.push_back(Claim(call));
  }
  return claimed;
}

int64_t AttendStreamCalls::OpenCount() const {
  return static_cast<int64_t>(calls_.size() + answers_.size()) +
         (is_sending_ ? 1 : 0);
}

bool AttendStreamCalls::MayReceive() const {
  if (is_receiving_ || is_handling_ || received_last_ || gone_ || ending_) {
    return false;
  }
  // Calls that wait for chunks end only if these are read; what is refused
  // meanwhile must not grow without bound either.
  const int64_t bound = options_.max_calls * (collecting_ > 0 ? 2 : 1);
  return OpenCount() < bound;
}

bool AttendStreamCalls::MayEnd() const {
  if (is_sending_ || is_handling_ || leaving_ > 0) return false;
  if (!calls_.empty()) return false;
  return gone_ || (answers_.empty() && (received_last_ || ending_));
}

AttendStreamCalls::Step AttendStreamCalls::NextStep() {
  if (ended_) return Step::kNone;
  if (!is_sending_ && !gone_ && !answers_.empty()) {
    sending_ = std::move(answers_.front());
    answers_.pop_front();
    is_sending_ = true;
    sending_since_ = context_.clock.Now();
    return Step::kSend;
  }
  if (MayReceive()) {
    is_receiving_ = true;
    return Step::kReceive;
  }
  if (!MayEnd()) return Step::kNone;
  ended_ = true;
  if (gone_) end_status_ = lost_;
  return Step::kEnd;
}

void AttendStreamCalls::Pump() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(pumping_, true)) return;
  }
  while (true) {
    Step step = Step::kNone;
    const grpc::ByteBuffer* message = nullptr;
    absl::Status end_status;
    std::shared_ptr<grpc::Alarm> watch;
    {
      MutexLock lock(mutex_);
      step = NextStep();
      if (step == Step::kNone) {
        pumping_ = false;
        return;
      }
      if (step == Step::kSend) message = &sending_.messages[sending_.next];
      if (step == Step::kSend && watch_ == nullptr) {
        watch_ = watch = std::make_shared<grpc::Alarm>();
      }
      if (step == Step::kEnd) end_status = end_status_;
    }
    if (step == Step::kReceive) transport_.Receive();
    if (watch != nullptr) Watch(watch, options_.send_grace);
    if (step == Step::kSend) transport_.Send(*message);
    if (step == Step::kEnd) {
      // The transport may be gone when this returns.
      transport_.End(end_status);
      return;
    }
  }
}

}  // namespace attn
