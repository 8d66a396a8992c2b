#include "client/load/load_run.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "client/load/load_mix.h"
#include "client/load/load_timeline.h"

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
  LoadRequest request;
  int64_t sent = 0;
};

// State of one run. The sending thread and the threads that complete calls
// share it under mutex_; it is idle once in_flight_ is back at 0.
class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const LoadCall& call, LoadTimer& timer,
          const std::stop_token& stop)
      : options_(options),
        call_(call),
        timer_(timer),
        stop_(stop),
        mix_(options.weights, options.seed),
        start_(timer.Now()),
        window_start_(start_ + absl::ToInt64Nanoseconds(options.warmup)),
        window_end_(window_start_ + absl::ToInt64Nanoseconds(options.duration)),
        timeline_(window_end_ - window_start_),
        tallies_(mix_.size()),
        first_answers_(mix_.size()) {}

  LoadResult Run() {
    if (options_.open()) {
      SendOnSchedule();
    } else {
      KeepCallersBusy();
    }
    WaitForAnswers();
    result_.window_seconds = Seconds(ended_at_ - window_start_);
    result_.timeline = timeline_.Points();
    const std::lock_guard<std::mutex> lock(mutex_);  // from Progress()
    for (const CallTally& tally : tallies_) result_.Merge(tally);
    if (tallies_.size() > 1) result_.classes = std::move(tallies_);
    return std::move(result_);
  }

  // What LoadMonitor shows.
  LoadProgress Progress() {
    const int64_t now = timer_.Now();
    LoadProgress progress;
    progress.warming_up = now < window_start_;
    progress.seconds_left = Seconds(std::max<int64_t>(0, window_end_ - now));
    progress.window_seconds =
        Seconds(std::clamp(now, window_start_, window_end_) - window_start_);
    const std::lock_guard<std::mutex> lock(mutex_);
    progress.in_flight = in_flight_;
    progress.p99 = timeline_.total().ValueAtPercentile(99);
    for (const CallTally& tally : tallies_) {
      progress.offered += tally.offered;
      progress.answered += tally.answered;
      progress.errors += tally.error_count();
    }
    return progress;
  }

 private:
  void SendOnSchedule() {
    const auto arrivals =
        MakeArrivals(options_.arrivals, options_.rate, options_.seed);
    int64_t sequence = 0;
    for (int64_t intended = start_ + arrivals->Next(); intended < window_end_;
         intended = start_ + arrivals->Next()) {
      const Ticket ticket = TicketFor(sequence++, intended);
      if (ticket.request.measured) StartWindow();
      SleepUntil(intended);
      if (stop_.stop_requested()) break;
      // What is overdue from the warm-up must not use up the window.
      if (!ticket.request.measured && timer_.Now() >= window_start_) continue;
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

  static double Seconds(int64_t nanos) {
    return static_cast<double>(nanos) / kNanosPerSecond;
  }

  Ticket TicketFor(int64_t sequence, int64_t intended) const {
    return {.request = {.sequence = sequence,
                        .call_class = mix_.ClassOf(sequence),
                        .intended = intended,
                        .measured = intended >= window_start_},
            .sent = 0};
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
    if (!ticket.request.measured) {
      ++result_.warmup_requests;
      return;
    }
    CallTally& tally = TallyOf(ticket);
    ++tally.offered;
    ++tally.sent;
  }

  // With mutex_ held.
  CallTally& TallyOf(const Ticket& ticket) {
    return tallies_[ticket.request.call_class];
  }

  // With mutex_ held.
  void RecordLatency(const Ticket& ticket, int64_t now) {
    const int64_t intended = ticket.request.intended;
    TallyOf(ticket).latency.Record(now - intended);
    timeline_.Record(intended - window_start_, now - intended);
  }

  void StartWindow() {
    if (window_open_) return;
    SleepUntil(window_start_);
    window_open_ = true;
    result_.cpu_seconds = -CpuSeconds();
  }

  void EndWindow() {
    ended_at_ = std::clamp(timer_.Now(), window_start_, window_end_);
    result_.cpu_seconds += CpuSeconds();
  }

  double CpuSeconds() const { return Seconds(timer_.CpuTime()); }

  void SleepUntil(int64_t time) {
    while (timer_.Now() < time && !stop_.stop_requested()) {
      timer_.WaitUntil(time);
    }
  }

  // Takes a place among the calls in flight. False: none came free until the
  // run was over.
  bool WaitForRoom(const Ticket& ticket) {
    const int64_t give_up_at =
        ticket.request.measured ? window_end_ + kSendGrace : window_start_;
    bool waited = false;
    while (timer_.Now() < give_up_at && !stop_.stop_requested()) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        wake_on_answer_ = in_flight_ >= options_.max_in_flight;
        if (!wake_on_answer_) {
          if (waited && ticket.request.measured) ++TallyOf(ticket).held_back;
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
    if (!ticket.request.measured) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ++TallyOf(ticket).offered;
    ++TallyOf(ticket).unsent;
    RecordLatency(ticket, timer_.Now());
  }

  void Send(Ticket ticket) {
    ticket.sent = timer_.Now();
    if (!options_.open()) ticket.request.intended = ticket.sent;
    call_(ticket.request, [this, ticket](const CallOutcome& outcome) {
      Finish(ticket, outcome);
    });
  }

  void Finish(const Ticket& ticket, const CallOutcome& outcome) {
    const int64_t now = timer_.Now();
    std::optional<Ticket> next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ticket.request.measured) Record(ticket, outcome, now);
      --in_flight_;
      if (!options_.open() && now < window_end_ && !stop_.stop_requested()) {
        next = NextOfCaller();
      }
      // Under the lock: once it is free and nothing is in flight, the run and
      // the timer may be gone.
      if (wake_on_answer_) timer_.Wake();
    }
    if (next.has_value()) Send(*next);
  }

  // With mutex_ held.
  void Record(const Ticket& ticket, const CallOutcome& outcome, int64_t now) {
    if (options_.open())
      result_.slip.Record(ticket.sent - ticket.request.intended);
    CallTally& tally = TallyOf(ticket);
    const bool answered = outcome.code == absl::StatusCode::kOk;
    if (answered || outcome.code == absl::StatusCode::kDeadlineExceeded) {
      RecordLatency(ticket, now);
      tally.service.Record(now - ticket.sent);
    }
    if (!answered) {
      RecordError(ticket, outcome);
      return;
    }
    ++tally.answered;
    std::optional<int64_t>& first = first_answers_[ticket.request.call_class];
    if (!first.has_value()) first = now;
    if (now - *first <= window_end_ - window_start_) {
      ++tally.answered_in_time;
    }
    if (!outcome.server.has_value()) return;
    tally.server_queue.Record(outcome.server->queue_ns);
    tally.server_compute.Record(outcome.server->compute_ns);
  }

  // With mutex_ held.
  void RecordError(const Ticket& ticket, const CallOutcome& outcome) {
    CallTally& tally = TallyOf(ticket);
    timeline_.CountError(ticket.request.intended - window_start_);
    if (!outcome.reason.empty()) ++tally.errors_by_reason[outcome.reason];
    if (tally.errors[outcome.code]++ == 0) {
      tally.first_errors[outcome.code] = outcome.message;
    }
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
  const std::stop_token& stop_;
  const LoadMix mix_;
  const int64_t start_;
  const int64_t window_start_;
  const int64_t window_end_;
  bool window_open_ = false;
  // When nothing more was sent: at the end of the window, or before.
  int64_t ended_at_ = 0;

  std::mutex mutex_;
  LoadResult result_;
  LoadTimeline timeline_;
  // One for each class; the total is made of them when all is over.
  std::vector<CallTally> tallies_;
  // When each class was first answered: one that takes longer is answered later
  // by that much all along.
  std::vector<std::optional<int64_t>> first_answers_;
  int64_t in_flight_ = 0;
  int64_t next_of_callers_ = 0;
  bool wake_on_answer_ = false;
};

}  // namespace

LoadResult RunLoad(const LoadOptions& options, const LoadCall& call,
                   LoadTimer& timer, LoadMonitor* monitor,
                   const std::stop_token& stop) {
  LoadRun run(options, call, timer, stop);
  // A wait that goes on ends at once.
  const std::stop_callback wake(stop, [&timer] { timer.Wake(); });
  if (monitor == nullptr) return run.Run();
  monitor->Begin([&run] { return run.Progress(); });
  LoadResult result = run.Run();
  monitor->End();
  return result;
}

}  // namespace attn
