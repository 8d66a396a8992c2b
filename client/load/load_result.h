// What a load run measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/load/hdr_histogram.h"
#include "client/load/load_timeline.h"

namespace attn {

// A run that answers less than this share of what was offered has failed.
inline constexpr double kRequiredShare = 0.99;

// Counts and histograms (nanoseconds) of one kind of call in the measured
// window. Thread-compatible.
struct CallTally {
  // From the intended send to the answer. Calls that ran into their deadline
  // and requests that were never sent count with the time they had waited, so
  // that a stall cannot hide; calls that failed sooner do not count.
  HdrHistogram latency;
  // From the actual send to the answer, of the same calls that were sent.
  HdrHistogram service;
  // The server's own account of the answered calls.
  HdrHistogram server_queue;
  HdrHistogram server_compute;

  // Requests whose intended send lies in the window.
  int64_t offered = 0;
  int64_t sent = 0;
  int64_t answered = 0;
  // Answers within one window's length of the first answer to this kind of
  // call: if the server keeps up, all of them, whatever their latency.
  int64_t answered_in_time = 0;
  // Sent late because the most calls allowed were in flight already.
  int64_t held_back = 0;
  // Never sent: still overdue when the run ended.
  int64_t unsent = 0;
  // Failed calls by code, and what the first of each said.
  std::map<absl::StatusCode, int64_t> errors;
  std::map<absl::StatusCode, std::string> first_errors;
  // Those that named a reason, by google.rpc.ErrorInfo's.
  std::map<std::string, int64_t> errors_by_reason;

  int64_t error_count() const;
  // answered_in_time / offered; 0 if nothing was offered.
  double achieved_share() const;
  // Whether that is at least kRequiredShare.
  bool KeptUp() const;
  // Adds the other's.
  void Merge(const CallTally& other);
};

// The total, and what belongs to the run as a whole; what was sent during
// warm-up is only counted. Thread-compatible.
struct LoadResult : CallTally {
  // Each class of a mix, in its order; empty if all calls are of one class.
  std::vector<CallTally> classes;
  // Actual minus intended send. Empty in a closed loop.
  HdrHistogram slip;
  std::vector<TimelinePoint> timeline;

  int64_t warmup_requests = 0;
  // Length of the window and the process's CPU time within it.
  double window_seconds = 0;
  double cpu_seconds = 0;

  double RateOf(int64_t count) const;
  double offered_rate() const { return RateOf(offered); }
  double achieved_rate() const { return RateOf(answered_in_time); }
};

}  // namespace attn
