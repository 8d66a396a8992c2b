// What calls without a transport run against.
#pragma once

#include <string>

#include "engine/runtime/mutex.h"
#include "gtest/gtest.h"
#include "server/rpc/call_context.h"
#include "server/rpc/line_log.h"
#include "tests/server/rpc/null_metrics.h"

namespace attn {

// An open gate, a queue and an engine of two workers; the log is kept.
class CallFixture : public ::testing::Test {
 protected:
  CallFixture() { admission_.Open(); }

  std::string Log() {
    const MutexLock lock(log_mutex_);
    return lines_;
  }

  const Clock& clock_ = Clock::Monotonic();
  NullMetrics metrics_;
  Mutex log_mutex_;
  std::string lines_ ATTN_GUARDED_BY(log_mutex_);
  const LineLog log_{LogFormat::kText, [this](const std::string& line) {
                       const MutexLock lock(log_mutex_);
                       lines_ += line;
                     }};
  CallObserver observer_{{}, metrics_, log_};
  Admission admission_{{.max_concurrent_requests = 100}, clock_};
  // Of the calls that are not computed where they arrive, some wait and some
  // are refused.
  Batcher batcher_{{.max_queue_size = 2, .max_batch_tokens = 64}, clock_};
  Engine engine_{{.workers = 2}};
  const CallContext context_{.engine = engine_,
                             .admission = admission_,
                             .batcher = batcher_,
                             .observer = observer_,
                             .clock = clock_,
                             .max_message_bytes = 1 << 20};
};

}  // namespace attn
