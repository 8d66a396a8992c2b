#include "client/load/session_opener.h"

#include <utility>

#include "client/library/session_client.h"

namespace attn {
namespace {

grpc::ByteBuffer OpenRequestOf(const CallProfile& profile) {
  const AttentionShape& shape = profile.shape;
  return Serialize(EncodeOpenSession({.spec = profile.Spec(),
                                      .layers = profile.sessions.layers,
                                      .q_heads = shape.q_heads,
                                      .kv_heads = shape.kv_heads,
                                      .q_dim = shape.q_dim,
                                      .k_dim = shape.k_dim,
                                      .v_dim = shape.v_dim,
                                      .kv_dtype = profile.sessions.kv_dtype}));
}

}  // namespace

StepMessage LoadPlace::NextStep() const {
  StepMessage message;
  message.session_id = id;
  message.epoch = epoch;
  message.step = next_step;
  message.position = position;
  return message;
}

bool IsSessionLoss(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

SessionOpener::SessionOpener(const CallProfile& profile,
                             const SessionTokens& tokens,
                             absl::Duration deadline)
    : profile_(profile),
      tokens_(tokens),
      deadline_(deadline),
      open_request_(OpenRequestOf(profile)) {}

void SessionOpener::Begin(LoadTimer& timer, const std::stop_token& stop) {
  const std::lock_guard<std::mutex> lock(mutex_);
  timer_ = &timer;
  stop_ = stop;
  shared_ = nullptr;
  ending_ = false;
  tally_ = SessionTally();
}

void SessionOpener::Share(const LoadPlace& place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shared_ = &place;
}

void SessionOpener::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ending_ = true;
}

SessionTally SessionOpener::TakeTally() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(tally_, SessionTally());
}

bool SessionOpener::Stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ending_ || stop_.stop_requested();
}

void SessionOpener::Prepare(LoadPlace& place, int64_t tokens, Continue next) {
  // The session may be open without all of its tokens: it is of no use then.
  Continue checked = [this, &place,
                      next = std::move(next)](const absl::Status& status) {
    if (status.ok()) {
      next(status);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!absl::IsCancelled(status)) ++tally_.not_begun;
    }
    Close(place, [next, status] { next(status); });
  };
  bool forks = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    forks = shared_ != nullptr;
  }
  if (forks) {
    ForkShared(place, tokens, std::move(checked));
  } else {
    OpenNew(place, tokens, std::move(checked));
  }
}

void SessionOpener::OpenNew(LoadPlace& place, int64_t tokens, Continue next) {
  place.position = 0;
  session_calls::Open(
      *place.channel, open_request_, deadline_,
      [this, &place, tokens, next = std::move(next),
       begun = timer_->Now()](absl::StatusOr<SessionName> name) {
        Opened(place, tokens, begun, std::move(name), next);
      });
}

void SessionOpener::ForkShared(LoadPlace& place, int64_t tokens,
                               Continue next) {
  auto fork = [this, &place, tokens, next = std::move(next)] {
    SessionName of;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (shared_ != nullptr) of = {.id = shared_->id, .epoch = shared_->epoch};
    }
    if (of.id.empty()) {
      NextFork();
      OpenNew(place, tokens, next);
      return;
    }
    place.position = profile_.sessions.shared;
    session_calls::Fork(*place.channel, of, deadline_,
                        [this, &place, tokens, next, begun = timer_->Now()](
                            absl::StatusOr<SessionName> name) {
                          const bool is_lost =
                              !name.ok() && IsSessionLoss(name.status());
                          if (is_lost) {
                            const std::lock_guard<std::mutex> lock(mutex_);
                            if (std::exchange(shared_, nullptr) != nullptr)
                              ++tally_.lost;
                          } else if (name.ok()) {
                            const std::lock_guard<std::mutex> lock(mutex_);
                            ++tally_.forked;
                          }
                          NextFork();
                          if (is_lost) {
                            OpenNew(place, tokens, next);
                          } else {
                            Opened(place, tokens, begun, std::move(name), next);
                          }
                        });
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (forking_) {
      forks_.push_back(std::move(fork));
      return;
    }
    forking_ = true;
  }
  fork();
}

void SessionOpener::NextFork() {
  std::function<void()> fork;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    forking_ = !forks_.empty();
    if (!forking_) return;
    fork = std::move(forks_.front());
    forks_.pop_front();
  }
  fork();
}

void SessionOpener::Opened(LoadPlace& place, int64_t tokens, int64_t begun,
                           absl::StatusOr<SessionName> name,
                           const Continue& next) {
  const int64_t now = timer_->Now();
  if (!name.ok()) {
    next(name.status());
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++tally_.opened;
    tally_.open.Record(now - begun);
  }
  place.id = std::move(name->id);
  place.epoch = name->epoch;
  place.next_step = 0;
  place.steps_made = 0;
  place.path = profile_.sessions.stream
                   ? MakeStreamedSteps(*place.channel, deadline_)
                   : MakeUnarySteps(*place.channel, deadline_);
  Prefill(place, tokens, next);
}

void SessionOpener::Prefill(LoadPlace& place, int64_t tokens, Continue next) {
  if (place.position >= tokens) {
    next(absl::OkStatus());
    return;
  }
  if (Stopping()) {
    next(absl::CancelledError("the load was stopped"));
    return;
  }
  StepMessage message = place.NextStep();
  message.layers = tokens_.First(place.position, tokens);
  place.path->Step(
      message, [this, &place, tokens, next = std::move(next),
                begun = timer_->Now()](const absl::StatusOr<StepResult>& made) {
        if (!made.ok()) {
          next(made.status());
          return;
        }
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          tally_.prefill.Record(timer_->Now() - begun);
        }
        place.position += tokens_.CountOfFirst(place.position, tokens);
        ++place.next_step;
        Prefill(place, tokens, next);
      });
}

void SessionOpener::Close(LoadPlace& place, Finished next) {
  // A stream ends in front of its session.
  place.path.reset();
  if (place.id.empty()) {
    next();
    return;
  }
  session_calls::Close(
      *place.channel, place.id, deadline_,
      [this, &place, next = std::move(next),
       begun = timer_->Now()](const absl::StatusOr<bool>& closed) {
        const int64_t now = timer_->Now();
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          if (!closed.ok()) {
            ++tally_.left;
          } else if (*closed) {
            ++tally_.closed;
            tally_.close.Record(now - begun);
          } else {
            ++tally_.gone;
          }
        }
        place.id.clear();
        next();
      });
}

}  // namespace attn
