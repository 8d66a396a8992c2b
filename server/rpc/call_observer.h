// Turns what happened to a call into metrics and a line of the log.
#pragma once

#include <string>

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
  // Share of the rows that the entropy metrics look at, 0 to 1.
  double entropy_sample_rate = 0.1;
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
  // The rows of a finished call; a bounded number of them, at a fixed stride,
  // is looked at.
  void RowsComputed(const std::string& variant,
                    absl::Span<const RowStatistics> rows);

 private:
  void CountRejection(const absl::Status& status);
  void CountAttend(const CallRecord& record);

  const CallObserverOptions options_;
  Metrics& metrics_;
  const LineLog& log_;
};

}  // namespace attn
