// How long calls wait for one of several cores.
#pragma once

namespace attn {

// Poisson arrivals, one queue in order of arrival, `servers` servers: M/G/c.
//
// The mean is that of M/M/c times (1 + variation) / 2 (Lee and Longton 1959,
// exact for one server by Pollaczek and Khinchine, and for exponential
// service); the tail beyond zero is taken as exponential with that mean
// (Kingman's heavy-traffic limit; exact for M/M/c). A value.
struct WaitingTime {
  int servers = 1;
  // Calls a second.
  double arrivals = 0;
  // Mean of a call.
  double service_seconds = 0;
  // Squared coefficient of variation of the service: 0 if all take as long, 1
  // if exponential.
  double variation = 0;

  // Of all servers; 1 and more: the queue has no end.
  double utilisation() const;
  // The probability to wait at all: Erlang's C formula. 1 from utilisation 1
  // on.
  double wait_probability() const;
  // Infinite from utilisation 1 on.
  double mean_seconds() const;
  // The wait that a share `quantile` of the calls, 0 to 1, does not exceed.
  double quantile_seconds(double quantile) const;
};

// The probability that all `servers` are busy and a call has to wait, at an
// offered load of `erlangs` < servers (Erlang 1917), by the recursion of
// Erlang's B.
double ErlangC(int servers, double erlangs);

}  // namespace attn
