// What a load run measured.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "client/load/hdr_histogram.h"

namespace attn {

// A run that answers less than this share of what was offered has failed.
inline constexpr double kRequiredShare = 0.99;

// Counts and histograms (nanoseconds) of the measured window; what was sent
// during warm-up is only counted. Thread-compatible.
struct LoadResult {
  // From the intended send to the answer. Calls that ran into their deadline
  // and requests that were never sent count with the time they had waited, so
  // that a stall cannot hide; calls that failed sooner do not count.
  HdrHistogram latency;
  // From the actual send to the answer, of the same calls that were sent.
  HdrHistogram service;
  // Actual minus intended send. Empty in a closed loop.
  HdrHistogram slip;
  // The server's own account of the answered calls.
  HdrHistogram server_queue;
  HdrHistogram server_compute;

  int64_t warmup_requests = 0;
  // Requests whose intended send lies in the window.
  int64_t offered = 0;
  int64_t sent = 0;
  int64_t answered = 0;
  // Answers within one window's length of the first answer: if the server
  // keeps up, all of them, whatever their latency.
  int64_t answered_in_time = 0;
  // Sent late because the most calls allowed were in flight already.
  int64_t held_back = 0;
  // Never sent: still overdue when the run ended.
  int64_t unsent = 0;
  // Failed calls by code.
  std::map<absl::StatusCode, int64_t> errors;

  // Length of the window and the process's CPU time within it.
  double window_seconds = 0;
  double cpu_seconds = 0;

  int64_t error_count() const;
  double offered_rate() const;
  double achieved_rate() const;
  // Whether the achieved rate is at least kRequiredShare of the offered one.
  // False if nothing was offered.
  bool KeptUp() const;
};

}  // namespace attn
