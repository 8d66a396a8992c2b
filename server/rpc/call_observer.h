// Turns what happened to a call into metrics and a line of the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/row_statistics.h"
#include "server/metrics/metrics.h"
#include "server/rpc/call_record.h"
#include "server/rpc/line_log.h"

namespace attn {

struct CallObserverOptions {
  // Writes a line for each request.
  bool log_requests = true;
  // Share of the rows that the entropy metrics look at, 0 to 1; with 0 nothing
  // is told of rows and heads.
  double entropy_sample_rate = 0.1;
};

// The rows of a finished call, [B, heads, length].
struct ComputedRows {
  std::string_view variant;
  // The first that the spec names a tensor of; empty if none.
  std::string_view layer;
  absl::Span<const RowStatistics> rows;
  int64_t heads = 0;
  int64_t length = 0;
  // Whether OutputSelection::statistics asked for all that they can tell.
  bool has_statistics = false;
};

// The only place where the verbs of Metrics are called for a request.
// Thread-safe.
class CallObserver {
 public:
  // `metrics` and `log` must outlive this.
  CallObserver(CallObserverOptions options, Metrics& metrics,
               const LineLog& log)
      : options_(options), metrics_(metrics), log_(log) {}

  void Started() { metrics_.RequestStarted(); }
  // Once for each Started().
  void Ended(const CallRecord& record);
  // Looks at a bounded number of rows, and for dead heads at no more of a head
  // than shows that it is not dead.
  void RowsComputed(const ComputedRows& computed);

 private:
  void CountRejection(const absl::Status& status);
  void CountAttend(const CallRecord& record);
  void CountDead(const ComputedRows& computed);

  const CallObserverOptions options_;
  Metrics& metrics_;
  const LineLog& log_;
  // Calls whose rows were looked at.
  std::atomic<uint64_t> turn_{0};
};

}  // namespace attn
