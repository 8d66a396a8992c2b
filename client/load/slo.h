// A service level objective: what latency must keep to.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/load_result.h"

namespace attn {

// "p99=20ms": the latency from the intended send, at a percentile.
struct LatencyBound {
  // As it was given: "p99.9", "max".
  std::string name;
  // 0 < percentile <= 100.
  double percentile = 0;
  absl::Duration limit;
};

// All bounds together. Thread-compatible.
struct Slo {
  std::vector<LatencyBound> bounds;

  // "p99=20ms,max=1s"
  std::string ToString() const;
};

// "p99=20ms,p99.9=50ms,max=1s"; every percentile once. INVALID_ARGUMENT names
// --slo.
absl::StatusOr<Slo> ParseSlo(const std::string& text);

// Why a run failed, one line each; empty if it passed. Without an SLO it must
// achieve kRequiredShare of what was offered; with one it must also be free of
// errors and keep to each bound.
std::vector<std::string> RunFailures(const LoadResult& result, const Slo* slo);

}  // namespace attn
