// What a server is started with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/line_log.h"

namespace attn {

// A value; thread-compatible.
struct ServerOptions {
  // "host:port" (0: any free one) or "unix:/path".
  std::vector<std::string> grpc_addresses = {"127.0.0.1:8001"};
  // "host:port"; empty: nothing is served, metrics are still counted.
  std::string metrics_address = "127.0.0.1:8002";

  // One request or response. Fits q, k and v of 8 heads, 64 wide, at 40 000
  // tokens.
  int64_t max_message_bytes = int64_t{256} << 20;
  // Payloads, responses and scratch of all requests that are inside.
  int64_t max_inflight_bytes = int64_t{1} << 30;
  int64_t max_concurrent_requests = 1024;
  int64_t max_queue_size = 512;
  int64_t max_batch_tokens = 16384;
  // For clients that set no deadline.
  absl::Duration default_timeout = absl::Seconds(60);

  // 0: as many as the CPU quota allows.
  int compute_threads = 0;

  // After the health service said NOT_SERVING: time for load balancers to
  // notice, then time for requests inside to end.
  absl::Duration drain_delay = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(25);

  LogFormat log_format = LogFormat::kText;
  bool log_requests = true;
  // Share of the rows that the entropy metrics look at.
  double entropy_sample_rate = 0.1;
};

// INVALID_ARGUMENT with one line that names the flags that do not fit.
absl::Status Validate(const ServerOptions& options);

}  // namespace attn
