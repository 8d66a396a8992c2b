#include "client/capacity/queue_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

namespace attn {
namespace {

// A call comes to its next stop.
struct Coming {
  double at = 0;
  // Of two at the same time the one that came first goes first.
  int64_t call = 0;
  size_t stop = 0;

  friend bool operator>(const Coming& a, const Coming& b) {
    return a.at != b.at ? a.at > b.at : a.call > b.call;
  }
};

// Calls that are under way. Thread-compatible.
class QueueRun {
 public:
  QueueRun(const QueueTraffic& traffic, std::vector<QueueStation>& stations,
           RandomNumbers& random)
      : traffic_(traffic), stations_(stations), random_(random) {}

  std::vector<QueuedCall> Run() {
    calls_.resize(static_cast<size_t>(traffic_.calls));
    visits_.resize(calls_.size());
    if (traffic_.calls > 0) Begin(0, 0);
    while (!coming_.empty()) {
      const Coming next = coming_.top();
      coming_.pop();
      Serve(next);
    }
    return std::move(calls_);
  }

 private:
  void Begin(int64_t call, double now) {
    const auto index = static_cast<size_t>(call);
    calls_[index].arrival = now + random_.Exponential() / traffic_.rate;
    traffic_.route(visits_[index]);
    coming_.push({calls_[index].arrival, call, 0});
  }

  void Serve(const Coming& coming) {
    const auto index = static_cast<size_t>(coming.call);
    std::vector<QueueVisit>& visits = visits_[index];
    if (coming.stop == 0 && coming.call + 1 < traffic_.calls) {
      Begin(coming.call + 1, coming.at);
    }
    if (coming.stop == visits.size()) {
      calls_[index].departure = coming.at;
      std::vector<QueueVisit>().swap(visits);
      return;
    }
    const QueueVisit& visit = visits[coming.stop];
    const double served =
        stations_[visit.station].Serve(coming.at, visit.service);
    coming_.push({served, coming.call, coming.stop + 1});
  }

  const QueueTraffic& traffic_;
  std::vector<QueueStation>& stations_;
  RandomNumbers& random_;
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  std::vector<QueuedCall> calls_;
  std::vector<std::vector<QueueVisit>> visits_;
};

}  // namespace

QueueStation::QueueStation(int servers)
    : free_at_(static_cast<size_t>(servers), 0.0) {}

double QueueStation::Serve(double now, double service) {
  std::pop_heap(free_at_.begin(), free_at_.end(), std::greater<>());
  const double begun = std::max(now, free_at_.back());
  free_at_.back() = begun + service;
  std::push_heap(free_at_.begin(), free_at_.end(), std::greater<>());
  busy_ += service;
  waited_ += begun - now;
  ++served_;
  return begun + service;
}

std::vector<QueuedCall> RunQueues(const QueueTraffic& traffic,
                                  std::vector<QueueStation>& stations,
                                  RandomNumbers& random) {
  return QueueRun(traffic, stations, random).Run();
}

double QuantileSeconds(std::vector<double> seconds, double quantile) {
  if (seconds.empty()) return 0;
  const auto rank = static_cast<size_t>(
      std::ceil(quantile * static_cast<double>(seconds.size())));
  const auto place =
      seconds.begin() + static_cast<std::ptrdiff_t>(rank > 0 ? rank - 1 : 0);
  std::nth_element(seconds.begin(), place, seconds.end());
  return *place;
}

}  // namespace attn
