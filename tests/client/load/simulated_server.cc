#include "tests/client/load/simulated_server.h"

#include <algorithm>
#include <utility>

namespace attn {

void SimulatedTimer::WaitUntil(int64_t time) {
  if (time > stall_from_ && time < stall_to_) time = stall_to_;
  while (!woken_ && !events_.empty() && events_.begin()->first <= time) {
    auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    event.mapped()();
  }
  if (!std::exchange(woken_, false)) now_ = std::max(now_, time);
}

LoadCall SimulatedServer::Call() {
  return [this](const LoadRequest& request, const CallDone& done) {
    classes_.push_back(request.call_class);
    Serve(request.sequence, done);
  };
}

void SimulatedServer::Serve(int64_t sequence, const CallDone& done) {
  const int64_t arrival = timer_.Now();
  arrivals_.push_back(arrival);
  most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
  int64_t begin = std::max(arrival, free_at_);
  if (begin >= stall_from_ && begin < stall_from_ + stall_length_) {
    begin = stall_from_ + stall_length_;
  }
  free_at_ = begin + service_;
  CallOutcome outcome;
  const auto failure = failures_.find(sequence);
  if (failure != failures_.end()) {
    outcome.code = failure->second;
    outcome.message = "told to fail";
  } else {
    outcome.server =
        ServerTimes{.queue_ns = begin - arrival, .compute_ns = service_};
  }
  timer_.At(free_at_, [this, done, outcome] {
    --in_flight_;
    done(outcome);
  });
}

}  // namespace attn
