// Ends a stream whose client does not take its answers.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"
#include "server/rpc/attend_stream_calls.h"

namespace attn {

void AttendStreamCalls::Watch(const std::shared_ptr<grpc::Alarm>& alarm,
                              absl::Duration left) {
  alarm->Set(
      std::chrono::system_clock::now() + absl::ToChronoMicroseconds(left),
      [weak = weak_from_this()](bool fired) {
        const auto self = fired ? weak.lock() : nullptr;
        if (self != nullptr) self->CheckSending();
      });
}

absl::Time AttendStreamCalls::SendLimit() const {
  absl::Time limit =
      std::min(sending_.send_by, sending_since_ + options_.send_grace);
  for (const QueuedAnswer& answer : answers_)
    limit = std::min(limit, answer.send_by);
  return limit;
}

void AttendStreamCalls::CheckSending() {
  // Let go without the lock.
  std::shared_ptr<grpc::Alarm> rung;
  std::shared_ptr<grpc::Alarm> next;
  absl::Duration left;
  {
    MutexLock lock(mutex_);
    rung = std::exchange(watch_, nullptr);
    // What is sent next is watched anew.
    if (!is_sending_ || gone_) return;
    left = SendLimit() - context_.clock.Now();
    if (left > absl::ZeroDuration()) {
      watch_ = next = std::make_shared<grpc::Alarm>();
    } else {
      ++leaving_;
    }
  }
  if (next != nullptr) {
    Watch(next, left);
    return;
  }
  Lose(Refuse(Refusal::kDeadlineExpired,
              absl::StrCat("the client did not take the answer in time (",
                           absl::FormatDuration(options_.send_grace), ")")));
  transport_.Cut();
  {
    MutexLock lock(mutex_);
    --leaving_;
  }
  Pump();
}

}  // namespace attn
