#include "client/capacity/waiting_time.h"

#include <cmath>
#include <limits>

namespace attn {

double ErlangC(int servers, double erlangs) {
  if (erlangs <= 0) return 0;
  if (erlangs >= servers) return 1;
  double blocked = 1;
  for (int busy = 1; busy <= servers; ++busy) {
    blocked = erlangs * blocked / (busy + erlangs * blocked);
  }
  const double utilisation = erlangs / servers;
  return blocked / (1 - utilisation * (1 - blocked));
}

double WaitingTime::utilisation() const {
  return arrivals * service_seconds / servers;
}

double WaitingTime::wait_probability() const {
  return ErlangC(servers, arrivals * service_seconds);
}

double WaitingTime::mean_seconds() const {
  if (arrivals <= 0) return 0;
  if (utilisation() >= 1) return std::numeric_limits<double>::infinity();
  const double spare = servers / service_seconds - arrivals;
  return wait_probability() / spare * (1 + variation) / 2;
}

double WaitingTime::quantile_seconds(double quantile) const {
  if (arrivals <= 0) return 0;
  if (utilisation() >= 1) return std::numeric_limits<double>::infinity();
  const double waits = wait_probability();
  if (waits <= 1 - quantile) return 0;
  return mean_seconds() / waits * std::log(waits / (1 - quantile));
}

}  // namespace attn
