#include "server/app/options.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/app/listen_address.h"

namespace attn {
namespace {

constexpr int kMaxComputeThreads = 4096;
// As far as Linux goes.
constexpr int kNicest = 19;
// gRPC counts its milliseconds in 31 bits.
constexpr absl::Duration kLongestPingInterval = absl::Hours(24);

// Below this gRPC cannot even shake hands.
constexpr int64_t kLeastTransportBytes = int64_t{64} << 20;

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

// A browser sends it so: a scheme and a host, without a path.
bool IsOrigin(absl::string_view text) {
  if (text == "*") return true;
  const bool has_scheme = absl::ConsumePrefix(&text, "http://") ||
                          absl::ConsumePrefix(&text, "https://");
  return has_scheme && !text.empty() && !absl::StrContains(text, '/');
}

// Clients dial it, and send it as a header's value.
bool IsOwner(const std::string& address) {
  if (address.empty()) return true;
  const bool graph = absl::c_all_of(address, [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!graph || absl::StrContains(address, '/') != IsUnixAddress(address)) {
    return false;
  }
  if (IsUnixAddress(address)) return true;
  const auto split = SplitHostPort(address);
  return split.has_value() && split->port > 0;
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
  if (!o.http_address.empty() && !SplitHostPort(o.http_address).has_value()) {
    return Bad(absl::StrCat("--http-address=", o.http_address,
                            ": must be host:port, or empty"));
  }
  if (!IsOwner(o.advertise_address)) {
    return Bad(absl::StrCat(
        "--advertise-address=", absl::CHexEscape(o.advertise_address),
        ": must be host:port or unix:/path, without spaces, or empty"));
  }
  for (const std::string& origin : o.http_cors_origins) {
    if (IsOrigin(origin)) continue;
    return Bad(absl::StrCat("--http-cors-origins=", origin,
                            ": must be * or an origin: https://host[:port]"));
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const ServerOptions& o) {
  const absl::Status checks[] = {
      AtLeast("max-message-bytes", o.max_message_bytes, 1),
      AtLeast("max-inflight-bytes", o.max_inflight_bytes, 1),
      AtLeast("max-transport-bytes", o.max_transport_bytes, 0),
      AtLeast("max-concurrent-streams", o.max_concurrent_streams, 1),
      AtLeast("max-concurrent-requests", o.max_concurrent_requests, 1),
      AtLeast("max-queue-size", o.max_queue_size, 0),
      AtLeast("max-batch-tokens", o.max_batch_tokens, 1),
      NotNegative("max-queue-delay-us", o.max_queue_delay),
      NotNegative("priority-ageing-ms", o.priority_ageing),
      AtLeast("max-stream-calls", o.max_stream_calls, 1),
      AtLeast("default-timeout-ms",
              absl::ToInt64Milliseconds(o.default_timeout), 1),
      AtLeast("max-layer-bytes", o.max_layer_bytes, 0),
      AtLeast("max-session-bytes", o.max_session_bytes, 0),
      AtLeast("max-tenant-session-bytes", o.max_tenant_session_bytes, 0),
      AtLeast("session-idle-timeout",
              absl::ToInt64Milliseconds(o.session_idle_timeout), 1),
      AtLeast("max-sessions", o.max_sessions, 0),
      NotNegative("session-evict-after", o.session_evict_after),
      NotNegative("session-spill-after", o.session_spill_after),
      AtLeast("max-spill-bytes", o.max_spill_bytes, 0),
      AtLeast("tenant-max-requests", o.tenant_max_requests, 0),
      AtLeast("tenant-max-inflight-bytes", o.tenant_max_inflight_bytes, 0),
      AtLeast("compute-threads", o.compute_threads, 0),
      AtLeast("compute-niceness", o.compute_niceness, 0),
      NotNegative("idle-trim-delay", o.idle_trim_delay),
      NotNegative("min-ping-interval", o.min_ping_interval),
      NotNegative("max-connection-age", o.max_connection_age),
      NotNegative("drain-delay", o.drain_delay),
      NotNegative("drain-timeout", o.drain_timeout)};
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (o.compute_threads > kMaxComputeThreads) {
    return Bad(absl::StrCat("--compute-threads=", o.compute_threads,
                            ": must be at most ", kMaxComputeThreads));
  }
  if (o.compute_niceness > kNicest) {
    return Bad(absl::StrCat("--compute-niceness=", o.compute_niceness,
                            ": must be at most ", kNicest));
  }
  if (o.min_ping_interval > kLongestPingInterval) {
    return Bad(absl::StrCat(
        "--min-ping-interval=", absl::FormatDuration(o.min_ping_interval),
        ": must be at most ", absl::FormatDuration(kLongestPingInterval)));
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
  // And streams as well.
  if (o.max_concurrent_streams > std::numeric_limits<int32_t>::max()) {
    return Bad(absl::StrCat(
        "--max-concurrent-streams=", o.max_concurrent_streams,
        ": must be at most ", std::numeric_limits<int32_t>::max()));
  }
  if (o.max_transport_bytes > 0 &&
      o.max_transport_bytes <
          std::max(o.max_message_bytes, kLeastTransportBytes)) {
    return Bad(absl::StrCat("--max-transport-bytes=", o.max_transport_bytes,
                            ": must be 0, or at least ", kLeastTransportBytes,
                            " and --max-message-bytes=", o.max_message_bytes,
                            ", or the largest request never arrives"));
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
  if (o.max_queue_size == 0 && o.max_queue_delay > absl::ZeroDuration()) {
    return Bad(absl::StrCat(
        "--max-queue-delay-us=", absl::ToInt64Microseconds(o.max_queue_delay),
        ": must be 0 with --max-queue-size=0, or no "
        "request finds a place to wait for company"));
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const ServerOptions& o) {
  if (!o.tls_cert.empty() && o.tls_key.empty()) {
    return Bad(
        absl::StrCat("--tls-key: must be given with --tls-cert=", o.tls_cert));
  }
  if (o.tls_cert.empty() && !o.tls_key.empty()) {
    return Bad(
        absl::StrCat("--tls-cert: must be given with --tls-key=", o.tls_key));
  }
  if (o.tls_cert.empty() && !o.tls_client_ca.empty()) {
    return Bad(absl::StrCat("--tls-client-ca=", o.tls_client_ca,
                            ": needs --tls-cert and --tls-key"));
  }
  if (o.tls_reload <= absl::ZeroDuration()) {
    return Bad(absl::StrCat(
        "--tls-reload-seconds=", absl::ToDoubleSeconds(o.tls_reload),
        ": must be at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t TransportBytes(const ServerOptions& options) {
  if (options.max_transport_bytes > 0) return options.max_transport_bytes;
  return std::max(options.max_inflight_bytes, kLeastTransportBytes);
}

bool ServesReflection(const ServerOptions& options) {
  if (options.reflection == ReflectionMode::kAuto) {
    return options.auth_token_file.empty();
  }
  return options.reflection == ReflectionMode::kOn;
}

absl::Status Validate(const ServerOptions& options) {
  absl::Status status = CheckAddresses(options);
  if (status.ok()) status = CheckRanges(options);
  if (status.ok()) status = CheckTogether(options);
  if (status.ok()) status = CheckTls(options);
  return status;
}

}  // namespace attn
