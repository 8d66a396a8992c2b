// What is remembered of one call for metrics and the log. No tensor data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/variant_name.h"

namespace attn {

// A value; thread-compatible.
struct CallRecord {
  std::string method;
  std::string request_id;
  // Of the caller's trace; may be empty.
  std::string trace_id;
  // Whose call it is; empty: anonymous.
  std::string tenant;
  std::string variant = kNoVariant;
  std::string kernel;
  // "q[1, 8, 512, 64] kv[1, 8, 512, 64] F32"
  std::string shape;
  absl::Status status;

  absl::Duration total;
  absl::Duration receive;
  absl::Duration queue;
  absl::Duration compute;
  absl::Duration send;

  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
  int64_t payload_copies = 0;
  double flops = 0;
  int64_t fully_masked_rows = 0;
  int64_t nonfinite_q = 0;
  int64_t nonfinite_k = 0;
  int64_t nonfinite_v = 0;
  int64_t nonfinite_outputs = 0;
};

}  // namespace attn
