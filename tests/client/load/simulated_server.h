// A server and a clock in one thread: nothing sleeps, everything repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "client/load/load_run.h"
#include "client/load/load_timer.h"

namespace attn {

// Events run when somebody waits past their time. Not thread-safe.
class SimulatedTimer : public LoadTimer {
 public:
  int64_t Now() const override { return now_; }
  int64_t CpuTime() const override { return now_ / 4; }
  void WaitUntil(int64_t time) override;
  void Wake() override { woken_ = true; }

  void At(int64_t time, std::function<void()> event) {
    events_.emplace(time, std::move(event));
  }
  // Each wait for a time inside (from, to) ends at `to`: the machine that
  // sends the load was busy with something else.
  void StallSender(int64_t from, int64_t to) {
    stall_from_ = from;
    stall_to_ = to;
  }

 private:
  int64_t now_ = 1'000'000;
  int64_t stall_from_ = 0;
  int64_t stall_to_ = 0;
  bool woken_ = false;
  std::multimap<int64_t, std::function<void()>> events_;
};

// Serves one call at a time in the order of arrival, each for `service`
// nanoseconds; stops working for a while if told so. Not thread-safe.
class SimulatedServer {
 public:
  SimulatedServer(SimulatedTimer& timer, int64_t service)
      : timer_(timer), service_(service) {}

  void StallOnce(int64_t from, int64_t length) {
    stall_from_ = from;
    stall_length_ = length;
  }
  // Call number `sequence` fails with `code` after `service` nanoseconds.
  void Fail(int64_t sequence, absl::StatusCode code) {
    failures_[sequence] = code;
  }

  LoadCall Call();

  // When each call arrived, and of which class it was.
  const std::vector<int64_t>& arrivals() const { return arrivals_; }
  const std::vector<size_t>& classes() const { return classes_; }
  int most_in_flight() const { return most_in_flight_; }

 private:
  void Serve(int64_t sequence, const CallDone& done);

  SimulatedTimer& timer_;
  const int64_t service_;
  int64_t stall_from_ = -1;
  int64_t stall_length_ = 0;
  int64_t free_at_ = 0;
  int in_flight_ = 0;
  int most_in_flight_ = 0;
  std::map<int64_t, absl::StatusCode> failures_;
  std::vector<int64_t> arrivals_;
  std::vector<size_t> classes_;
};

}  // namespace attn
