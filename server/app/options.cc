#include "server/app/options.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "server/app/listen_address.h"

namespace attn {
namespace {

constexpr int kMaxComputeThreads = 4096;

absl::Status Bad(absl::string_view line) {
  return absl::InvalidArgumentError(line);
}

absl::Status AtLeast(absl::string_view flag, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return Bad(
      absl::StrCat("--", flag, "=", value, ": must be at least ", least));
}

absl::Status NotNegative(absl::string_view flag, absl::Duration value) {
  if (value >= absl::ZeroDuration()) return absl::OkStatus();
  return Bad(absl::StrCat("--", flag, "=", absl::FormatDuration(value),
                          ": must not be negative"));
}

absl::Status CheckAddresses(const ServerOptions& o) {
  if (o.grpc_addresses.empty()) {
    return Bad("--grpc-address: must name one address at least");
  }
  for (const std::string& address : o.grpc_addresses) {
    if (IsUnixAddress(address) || SplitHostPort(address).has_value()) continue;
    return Bad(absl::StrCat("--grpc-address=", address,
                            ": must be host:port or unix:/path"));
  }
  if (!o.metrics_address.empty() &&
      !SplitHostPort(o.metrics_address).has_value()) {
    return Bad(absl::StrCat("--metrics-address=", o.metrics_address,
                            ": must be host:port, or empty"));
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const ServerOptions& o) {
  const absl::Status checks[] = {
      AtLeast("max-message-bytes", o.max_message_bytes, 1),
      AtLeast("max-inflight-bytes", o.max_inflight_bytes, 1),
      AtLeast("max-concurrent-requests", o.max_concurrent_requests, 1),
      AtLeast("max-queue-size", o.max_queue_size, 0),
      AtLeast("max-batch-tokens", o.max_batch_tokens, 1),
      AtLeast("default-timeout-ms",
              absl::ToInt64Milliseconds(o.default_timeout), 1),
      AtLeast("compute-threads", o.compute_threads, 0),
      NotNegative("drain-delay", o.drain_delay),
      NotNegative("drain-timeout", o.drain_timeout)};
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (o.compute_threads > kMaxComputeThreads) {
    return Bad(absl::StrCat("--compute-threads=", o.compute_threads,
                            ": must be at most ", kMaxComputeThreads));
  }
  if (!(o.entropy_sample_rate >= 0 && o.entropy_sample_rate <= 1)) {
    return Bad(absl::StrCat("--entropy-sample-rate=", o.entropy_sample_rate,
                            ": must be from 0 to 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckTogether(const ServerOptions& o) {
  // gRPC counts the bytes of a message in 31 bits.
  if (o.max_message_bytes > std::numeric_limits<int32_t>::max()) {
    return Bad(absl::StrCat("--max-message-bytes=", o.max_message_bytes,
                            ": a gRPC message has at most ",
                            std::numeric_limits<int32_t>::max(), " bytes"));
  }
  if (o.max_inflight_bytes < o.max_message_bytes) {
    return Bad(absl::StrCat(
        "--max-inflight-bytes=", o.max_inflight_bytes,
        ": must be at least --max-message-bytes=", o.max_message_bytes,
        ", or the largest request never fits"));
  }
  if (o.max_queue_size > o.max_concurrent_requests) {
    return Bad(absl::StrCat("--max-queue-size=", o.max_queue_size,
                            ": must be at most --max-concurrent-requests=",
                            o.max_concurrent_requests,
                            ", or the queue never fills"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ServerOptions& options) {
  absl::Status status = CheckAddresses(options);
  if (status.ok()) status = CheckRanges(options);
  if (status.ok()) status = CheckTogether(options);
  return status;
}

}  // namespace attn
