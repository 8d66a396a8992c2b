// Calls on their way through stations, event by event.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "client/capacity/random_numbers.h"

namespace attn {

// Servers that take calls from one queue in the order in which they come.
// Thread-compatible.
class QueueStation {
 public:
  explicit QueueStation(int servers);

  // When a call that comes at `now` and takes `service` has been served. Calls
  // come in the order of time.
  double Serve(double now, double service);
  // Sum of all services so far.
  double busy_seconds() const { return busy_; }
  double waited_seconds() const { return waited_; }
  int64_t served() const { return served_; }

 private:
  // When each server is free again: a heap, the earliest first.
  std::vector<double> free_at_;
  double busy_ = 0;
  double waited_ = 0;
  int64_t served_ = 0;
};

// One stop of a call. A value.
struct QueueVisit {
  size_t station = 0;
  double service = 0;
};

// A call that has been through. A value.
struct QueuedCall {
  double arrival = 0;
  double departure = 0;

  double seconds() const { return departure - arrival; }
};

// Poisson arrivals, `rate` a second, of which each goes through the stops that
// `route` writes for it, in their order. The random numbers of `route` are its
// own affair.
struct QueueTraffic {
  double rate = 1;
  int64_t calls = 0;
  std::function<void(std::vector<QueueVisit>& visits)> route;
};

// All calls, in the order of their arrivals.
std::vector<QueuedCall> RunQueues(const QueueTraffic& traffic,
                                  std::vector<QueueStation>& stations,
                                  RandomNumbers& random);

// The least of `seconds` that a share `quantile`, 0 to 1, does not exceed; 0 if
// there are none.
double QuantileSeconds(std::vector<double> seconds, double quantile);

}  // namespace attn
