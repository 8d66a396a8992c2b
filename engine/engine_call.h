// What goes into the engine and what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/core/attention_args.h"
#include "engine/core/gradients.h"
#include "engine/core/row_statistics.h"
#include "engine/plan/plan.h"
#include "engine/runtime/cancellation.h"

namespace attn {

// What a finished call knows of itself.
struct CallReport {
  absl::Status status;
  // Time from Submit to the first tile, and from the first to the last.
  absl::Duration queued;
  absl::Duration computed;
  // Among the rows and keys within the lengths; a kernel need not look at keys
  // that no row sees.
  int64_t nonfinite_q = 0;
  int64_t nonfinite_k = 0;
  int64_t nonfinite_v = 0;
  int64_t nonfinite_outputs = 0;
  // In calls of F16: logits of visible keys, raw or final, that F16 could not
  // hold. They do no harm here, where logits are wider.
  int64_t f16_overflows = 0;
  // Rows that saw no key.
  int64_t fully_masked_rows = 0;
  // [B, Hq, Sq], empty unless the status is OK.
  std::vector<RowStatistics> row_statistics;
  // Of a backward call.
  ScalarGradients scalar_gradients;
};

// A forward call. What it points to must live until `done` has returned.
struct ForwardCall {
  std::shared_ptr<const Plan> plan;
  const AttentionArgs* args = nullptr;
  const AttentionOutputs* outputs = nullptr;
  const Cancellation* cancellation = nullptr;
  // Called exactly once.
  std::function<void(CallReport)> done;
};

}  // namespace attn
