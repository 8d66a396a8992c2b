#include "client/load/load_run.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace attn {
namespace {

constexpr double kNanosPerSecond = 1e9;
// A request that is due at the very end may be sent this much later, so that
// ordinary slip loses none. What is overdue by more then is given up.
constexpr int64_t kSendGrace = 100'000'000;
// How long to sleep at a time when only a completion can end the wait.
constexpr int64_t kLongWait = 1'000'000'000;

// One request of the run.
struct Ticket {
  int64_t sequence = 0;
  int64_t intended = 0;
  int64_t sent = 0;
  bool measured = false;
};

// State of one run. The sending thread and the threads that complete calls
// share it under mutex_; it is idle once in_flight_ is back at 0.
class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const LoadCall& call, LoadTimer& timer)
      : options_(options),
        call_(call),
        timer_(timer),
        start_(timer.Now()),
        window_start_(start_ + absl::ToInt64Nanoseconds(options.warmup)),
        window_end_(window_start_ +
                    absl::ToInt64Nanoseconds(options.duration)) {}

  LoadResult Run() {
    if (options_.open()) {
      SendOnSchedule();
    } else {
      KeepCallersBusy();
    }
    WaitForAnswers();
    result_.window_seconds =
        static_cast<double>(window_end_ - window_start_) / kNanosPerSecond;
    return std::move(result_);
  }

 private:
  void SendOnSchedule() {
    const auto arrivals =
        MakeArrivals(options_.arrivals, options_.rate, options_.seed);
    int64_t sequence = 0;
    for (int64_t intended = start_ + arrivals->Next(); intended < window_end_;
         intended = start_ + arrivals->Next()) {
      const Ticket ticket = TicketFor(sequence++, intended);
      if (ticket.measured) StartWindow();
      SleepUntil(intended);
      // What is overdue from the warm-up must not use up the window.
      if (!ticket.measured && timer_.Now() >= window_start_) continue;
      if (WaitForRoom(ticket)) {
        Send(ticket);
      } else {
        GiveUp(ticket);
      }
    }
    StartWindow();
    SleepUntil(window_end_);
    EndWindow();
  }

  void KeepCallersBusy() {
    for (int caller = 0; caller < options_.callers; ++caller) {
      Ticket ticket;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ticket = NextOfCaller();
      }
      Send(ticket);
    }
    SleepUntil(window_start_);
    StartWindow();
    SleepUntil(window_end_);
    EndWindow();
  }

  Ticket TicketFor(int64_t sequence, int64_t intended) const {
    return {.sequence = sequence,
            .intended = intended,
            .sent = 0,
            .measured = intended >= window_start_};
  }

  // With mutex_ held.
  Ticket NextOfCaller() {
    const Ticket ticket = TicketFor(next_of_callers_++, timer_.Now());
    Admit(ticket);
    return ticket;
  }

  // With mutex_ held: from here on the ticket counts.
  void Admit(const Ticket& ticket) {
    ++in_flight_;
    ++(ticket.measured ? result_.offered : result_.warmup_requests);
    if (ticket.measured) ++result_.sent;
  }

  void StartWindow() {
    if (window_open_) return;
    SleepUntil(window_start_);
    window_open_ = true;
    result_.cpu_seconds = -CpuSeconds();
  }

  void EndWindow() { result_.cpu_seconds += CpuSeconds(); }

  double CpuSeconds() const {
    return static_cast<double>(timer_.CpuTime()) / kNanosPerSecond;
  }

  void SleepUntil(int64_t time) {
    while (timer_.Now() < time) timer_.WaitUntil(time);
  }

  // Takes a place among the calls in flight. False: none came free until the
  // run was over.
  bool WaitForRoom(const Ticket& ticket) {
    const int64_t give_up_at =
        ticket.measured ? window_end_ + kSendGrace : window_start_;
    bool waited = false;
    while (timer_.Now() < give_up_at) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        wake_on_answer_ = in_flight_ >= options_.max_in_flight;
        if (!wake_on_answer_) {
          if (waited && ticket.measured) ++result_.held_back;
          Admit(ticket);
          return true;
        }
      }
      waited = true;
      timer_.WaitUntil(give_up_at);
    }
    return false;
  }

  void GiveUp(const Ticket& ticket) {
    if (!ticket.measured) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ++result_.offered;
    ++result_.unsent;
    result_.latency.Record(timer_.Now() - ticket.intended);
  }

  void Send(Ticket ticket) {
    ticket.sent = timer_.Now();
    if (!options_.open()) ticket.intended = ticket.sent;
    call_(ticket.sequence, [this, ticket](const CallOutcome& outcome) {
      Finish(ticket, outcome);
    });
  }

  void Finish(const Ticket& ticket, const CallOutcome& outcome) {
    const int64_t now = timer_.Now();
    std::optional<Ticket> next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ticket.measured) Record(ticket, outcome, now);
      --in_flight_;
      if (!options_.open() && now < window_end_) next = NextOfCaller();
      // Under the lock: once it is free and nothing is in flight, the run and
      // the timer may be gone.
      if (wake_on_answer_) timer_.Wake();
    }
    if (next.has_value()) Send(*next);
  }

  // With mutex_ held.
  void Record(const Ticket& ticket, const CallOutcome& outcome, int64_t now) {
    if (options_.open()) result_.slip.Record(ticket.sent - ticket.intended);
    const bool answered = outcome.code == absl::StatusCode::kOk;
    if (answered || outcome.code == absl::StatusCode::kDeadlineExceeded) {
      result_.latency.Record(now - ticket.intended);
      result_.service.Record(now - ticket.sent);
    }
    if (!answered) {
      ++result_.errors[outcome.code];
      return;
    }
    if (result_.answered++ == 0) first_answer_ = now;
    if (now - first_answer_ <= window_end_ - window_start_) {
      ++result_.answered_in_time;
    }
    if (!outcome.server.has_value()) return;
    result_.server_queue.Record(outcome.server->queue_ns);
    result_.server_compute.Record(outcome.server->compute_ns);
  }

  void WaitForAnswers() {
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (in_flight_ == 0) return;
        wake_on_answer_ = true;
      }
      timer_.WaitUntil(timer_.Now() + kLongWait);
    }
  }

  const LoadOptions& options_;
  const LoadCall& call_;
  LoadTimer& timer_;
  const int64_t start_;
  const int64_t window_start_;
  const int64_t window_end_;
  bool window_open_ = false;

  std::mutex mutex_;
  LoadResult result_;
  int64_t in_flight_ = 0;
  int64_t next_of_callers_ = 0;
  int64_t first_answer_ = 0;
  bool wake_on_answer_ = false;
};

}  // namespace

LoadResult RunLoad(const LoadOptions& options, const LoadCall& call,
                   LoadTimer& timer) {
  return LoadRun(options, call, timer).Run();
}

}  // namespace attn
