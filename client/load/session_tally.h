// What was measured of sessions, beside their calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/load/hdr_histogram.h"

namespace attn {

// What the server said of the steps that it started together: sums over steps,
// in which each wave counts once, however many steps told of it.
struct WaveTally {
  // Steps that were of a wave; the others were computed at once.
  int64_t steps = 0;
  double waves = 0;
  // Steps that could have been started, over all waves.
  double ready = 0;

  // A step was one of `started` >= 1 that were started together, of `ready`
  // that waited.
  void Add(int64_t started, int64_t of_ready);
  // 0 without waves.
  double mean() const;
  // Of those that were ready, the share that was started; 0 without waves.
  double share() const;
};

// Counts and histograms (nanoseconds) of the sessions of one class, of which a
// fixed number are open at the same time, each in a place. Invariant, once all
// are closed: opened = closed + gone + left. Thread-compatible.
struct SessionTally {
  explicit SessionTally(size_t places = 0);

  // Of all of the run, the steps' only of the measured window. A fork counts as
  // an open.
  HdrHistogram open;
  HdrHistogram close;
  // Of the steps that brought the first tokens.
  HdrHistogram prefill;
  // By place: from the intended send of each step that was answered.
  std::vector<HdrHistogram> steps;
  WaveTally waves;

  // Sessions that the server made; `forked` of them are forks.
  int64_t opened = 0;
  int64_t forked = 0;
  // Calls to open or fork that failed, and sessions that did not get their
  // first tokens.
  int64_t not_begun = 0;
  // Sessions that a step found gone, or out of step.
  int64_t lost = 0;
  // How they ended: closed; gone before they could be; or nobody knows, for the
  // call to close them failed.
  int64_t closed = 0;
  int64_t gone = 0;
  int64_t left = 0;
  // Of answered steps.
  int64_t tokens = 0;

  // The same of another process: its places come after these.
  void Merge(const SessionTally& other);
};

// How unlike each other the steps of sessions were.
struct StepSpread {
  // Places that made a step, and steps of the one that made fewest.
  int64_t places = 0;
  int64_t fewest_steps = 0;
  // p99 / median of one place's steps: that of the place where it is greatest.
  double ratio = 0;
  size_t place = 0;
  int64_t median = 0;
  int64_t p99 = 0;
};
StepSpread SpreadOf(const SessionTally& tally);

// Why sessions did not do what they must, one line each. `most_spread`: of
// StepSpread::ratio; 0: any.
std::vector<std::string> SessionFailures(const SessionTally& tally,
                                         double most_spread);

}  // namespace attn
