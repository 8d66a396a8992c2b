#include "client/load/session_fleet.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/library/call_status.h"

namespace attn {
namespace {

// Sessions that are opened, or closed, at the same time before and after a run:
// enough to keep a server busy, and far from its limits.
constexpr int kTogether = 16;

CallOutcome OutcomeOf(const absl::Status& status) {
  return {.code = status.code(),
          .message = std::string(status.message()),
          .reason = ErrorReasonOf(status)};
}

CallOutcome OutcomeOf(const StepResult& result) {
  CallOutcome outcome;
  const v1::CallReport& report = result.header.report();
  if (report.has_timings()) {
    outcome.server = ServerTimes{.queue_ns = report.timings().queue_ns(),
                                 .compute_ns = report.timings().compute_ns()};
  }
  return outcome;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionFleet>> SessionFleet::Create(
    const CallClass& call_class, const FleetOptions& options) {
  auto tokens = SessionTokens::Draw(call_class.call, call_class.payloads);
  if (!tokens.ok()) return tokens.status();
  return std::unique_ptr<SessionFleet>(
      new SessionFleet(call_class, options, *std::move(tokens)));
}

SessionFleet::SessionFleet(const CallClass& call_class,
                           const FleetOptions& options, SessionTokens tokens)
    : class_(call_class),
      options_(options),
      tokens_(std::move(tokens)),
      opener_(call_class.call, tokens_, options.deadline) {}

SessionFleet::~SessionFleet() = default;

absl::Status SessionFleet::Begin(const FleetRun& run,
                                 const std::stop_token& stop) {
  timer_ = &run.timer;
  in_turn_ = run.in_turn;
  opener_.Begin(run.timer, stop);
  const auto count = static_cast<size_t>(class_.call.sessions.sessions);
  tally_ = SessionTally(count);
  turn_ = 0;
  for (size_t i = 0; i < count; ++i) {
    places_.push_back(std::make_unique<FleetPlace>());
    places_.back()->number = i;
    places_.back()->channel = &run.channels[i % run.channels.size()];
  }
  if (class_.call.sessions.shared > 0) {
    shared_ = std::make_unique<FleetPlace>();
    shared_->channel = &run.channels.front();
  }
  absl::Status status = PrepareAll();
  if (!status.ok()) {
    End();
    return status;
  }
  for (const auto& place : places_) ready_.push_back(place.get());
  return absl::OkStatus();
}

absl::Status SessionFleet::PrepareAll() {
  absl::Status failure;
  const auto prepare = [this, &failure](FleetPlace& place, int64_t tokens) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++busy_;
    }
    opener_.Prepare(place, tokens,
                    [this, &failure](const absl::Status& status) {
                      const std::lock_guard<std::mutex> lock(mutex_);
                      failure.Update(status);
                      --busy_;
                      changed_.notify_all();
                    });
  };
  const auto wait_for = [this](int most) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, most] { return busy_ <= most; });
  };
  if (shared_ != nullptr) {
    prepare(*shared_, class_.call.sessions.shared);
    wait_for(0);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure.ok()) return failure;
    opener_.Share(*shared_);
  }
  for (const auto& place : places_) {
    wait_for(kTogether - 1);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure.ok()) break;
    }
    prepare(*place, class_.call.shape.kv_length);
  }
  wait_for(0);
  return failure;
}

void SessionFleet::Step(const LoadRequest& request, CallDone done) {
  Wish wish{.request = request,
            .done = std::move(done),
            .begun = in_turn_ ? request.intended : timer_->Now()};
  FleetPlace* place = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (in_turn_) {
      place = places_[static_cast<size_t>(turn_++) % places_.size()].get();
      if (place->busy) {
        place->wishes.push_back(std::move(wish));
        return;
      }
    } else if (ready_.empty()) {
      wishes_.push_back(std::move(wish));
      return;
    } else {
      place = ready_.front();
      ready_.pop_front();
    }
    place->busy = true;
    ++busy_;
  }
  Serve(*place, std::move(wish));
}

void SessionFleet::Serve(FleetPlace& place, Wish wish) {
  // While it waited no session was slow.
  if (!in_turn_) wish.begun = timer_->Now();
  if (!place.id.empty()) {
    MakeStep(place, std::move(wish));
    return;
  }
  opener_.Prepare(place, class_.call.shape.kv_length,
                  [this, &place, wish](const absl::Status& status) {
                    if (status.ok()) {
                      MakeStep(place, wish);
                      return;
                    }
                    Release(place);
                    wish.done(OutcomeOf(status));
                  });
}

void SessionFleet::MakeStep(FleetPlace& place, Wish wish) {
  StepMessage message = place.NextStep();
  message.priority = class_.call.priority;
  message.layers = tokens_.Decoded(place.position);
  place.path->Step(message, [this, &place, wish = std::move(wish)](
                                const absl::StatusOr<StepResult>& result) {
    StepEnded(place, wish, result);
  });
}

void SessionFleet::StepEnded(FleetPlace& place, const Wish& wish,
                             const absl::StatusOr<StepResult>& result) {
  bool over = false;
  if (result.ok()) {
    Answered(place, *result, wish, timer_->Now());
    const int64_t steps = class_.call.sessions.steps;
    over = steps > 0 && place.steps_made == steps;
  } else if (IsSessionLoss(result.status())) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++tally_.lost;
    over = true;
  }
  // What failed otherwise is the next step still: sent as it was, it is made
  // once, whether or not the server had made it.
  if (over) {
    Renew(place);
  } else {
    Release(place);
  }
  wish.done(result.ok() ? OutcomeOf(*result) : OutcomeOf(result.status()));
}

void SessionFleet::Answered(FleetPlace& place, const StepResult& result,
                            const Wish& wish, int64_t now) {
  const int64_t turn = tokens_.TurnOf(place.position);
  const int64_t round = turn / class_.payloads;
  if (options_.verify_every > 0 && round % options_.verify_every == 0) {
    agreement_.Offer(place.position, result);
  }
  const int64_t tokens = class_.call.shape.q_length;
  place.position += tokens;
  ++place.next_step;
  ++place.steps_made;
  if (!wish.request.measured) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  tally_.tokens += tokens;
  tally_.steps[place.number].Record(now - wish.begun);
  const v1::CallReport& report = result.header.report();
  if (report.batch_calls() > 0) {
    tally_.waves.Add(report.batch_calls(), report.ready_calls());
  }
}

void SessionFleet::Renew(FleetPlace& place) {
  opener_.Close(place, [this, &place] {
    if (opener_.Stopping()) {
      Release(place);
      return;
    }
    // What cannot be opened is tried again by the next request, and fails it.
    opener_.Prepare(place, class_.call.shape.kv_length,
                    [this, &place](const absl::Status&) { Release(place); });
  });
}

void SessionFleet::Release(FleetPlace& place) {
  Wish next;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<Wish>& wishes = in_turn_ ? place.wishes : wishes_;
    if (wishes.empty()) {
      place.busy = false;
      if (!in_turn_) ready_.push_back(&place);
      --busy_;
      // Under the lock: the fleet may be gone once it is free.
      changed_.notify_all();
      return;
    }
    next = std::move(wishes.front());
    wishes.pop_front();
  }
  Serve(place, std::move(next));
}

SessionTally SessionFleet::End() {
  opener_.Stop();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
    ready_.clear();
  }
  CloseAll();
  places_.clear();
  shared_.reset();
  SessionTally tally = std::exchange(tally_, SessionTally());
  tally.Merge(opener_.TakeTally());
  return tally;
}

void SessionFleet::CloseAll() {
  std::vector<FleetPlace*> places;
  for (const auto& place : places_) places.push_back(place.get());
  if (shared_ != nullptr) places.push_back(shared_.get());
  for (FleetPlace* place : places) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return busy_ < kTogether; });
      ++busy_;
    }
    opener_.Close(*place, [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      --busy_;
      changed_.notify_all();
    });
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
}

}  // namespace attn
