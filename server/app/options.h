// What a server is started with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/core/isa_cap.h"
#include "server/rpc/line_log.h"

namespace attn {

// Whether clients may ask for the schema. kAuto: where no tokens are asked for.
enum class ReflectionMode : uint8_t { kAuto, kOn, kOff };

// A value; thread-compatible.
struct ServerOptions {
  // "host:port" (0: any free one) or "unix:/path".
  std::vector<std::string> grpc_addresses = {"127.0.0.1:8001"};
  // "host:port"; empty: nothing is served, metrics are still counted.
  std::string metrics_address = "127.0.0.1:8002";
  // "host:port" of the page, the JSON gateway and the probes; empty: they are
  // not served.
  std::string http_address;
  // Whose pages may call the gateway: "https://a.example", or "*".
  std::vector<std::string> http_cors_origins;

  // One request or response. Fits q, k and v of 8 heads, 64 wide, at 40 000
  // tokens.
  int64_t max_message_bytes = int64_t{256} << 20;
  // Payloads, responses and scratch of all requests that are inside.
  int64_t max_inflight_bytes = int64_t{1} << 30;
  // What gRPC buffers of messages that are on their way in: it reads one whole
  // before anything can refuse it. 0: as much as max_inflight_bytes, 64 MiB at
  // least. With less, gRPC itself ends calls that we would have refused with a
  // reason.
  int64_t max_transport_bytes = 0;
  // Calls at once on one connection; more of them wait in the client. Above
  // max_concurrent_requests, so that one client alone is told to slow down.
  int64_t max_concurrent_streams = 2048;
  int64_t max_concurrent_requests = 1024;
  int64_t max_queue_size = 512;
  int64_t max_batch_tokens = 16384;
  // How long a request that could start waits for company.
  absl::Duration max_queue_delay = absl::ZeroDuration();
  // So much longer than one of the next higher priority has a request waited
  // that goes before it.
  absl::Duration priority_ageing = absl::Seconds(1);
  // Calls that one AttendStream may have open: enough to keep every worker busy
  // while answers travel.
  int64_t max_stream_calls = 64;
  // For clients that set no deadline.
  absl::Duration default_timeout = absl::Seconds(60);
  // No flags: how long the client of an AttendStream may take to read a
  // message, or of a unary call its answer, after the deadline; and when a
  // silent connection is pinged, and closed.
  absl::Duration stream_send_grace = absl::Seconds(60);
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);

  // Clients may ping every 10 s also without calls; half of it forgives jitter.
  absl::Duration min_ping_interval = absl::Seconds(5);

  // A connection this old, give or take a tenth, takes no new calls and ends
  // with its last one; the client makes another. So that clients which balance
  // by themselves look up the servers' name again, and find those that were
  // added. 0: connections do not age.
  absl::Duration max_connection_age{};

  // 0: as many as the CPU quota allows.
  int compute_threads = 0;
  // 0 to 19, beyond the process's own: small calls are received, computed and
  // sent by threads that go before those of large ones.
  int compute_niceness = 10;
  // Instruction sets are capped for tests, and so that machines of several
  // kinds give the same bits.
  IsaCap max_isa = IsaCap::kNative;

  // After the health service said NOT_SERVING: time for load balancers to
  // notice, then time for requests inside to end.
  absl::Duration drain_delay = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(25);

  // Empty: layers live as long as the process.
  std::string layer_dir;
  // Beside max_inflight_bytes: a layer that calls use is counted here once.
  int64_t max_layer_bytes = int64_t{1} << 30;
  // Keys and values of all sessions, beside max_inflight_bytes too; and of
  // those of one tenant, shared blocks counted for each session (0: no bound).
  int64_t max_session_bytes = int64_t{1} << 30;
  int64_t max_tenant_session_bytes = 0;
  // Whatever they hold.
  int64_t max_sessions = 100000;
  // Of a session that asks for none, and the most that one may ask for.
  absl::Duration session_idle_timeout = absl::Minutes(10);
  // One without a step for so long may make room for others.
  absl::Duration session_evict_after = absl::Seconds(30);
  // Where sessions go that are idle; empty: they are in memory or lost.
  std::string session_dir;
  // Those without a step for so long go there although nobody needs their
  // memory: shorter than the time after which most clients have gone, longer
  // than a person takes to read an answer. 0: only when memory is short.
  absl::Duration session_spill_after = absl::Minutes(1);
  // Of their files; 0: no bound but the disk's.
  int64_t max_spill_bytes = 0;
  // Where this server alone is reached, for the steps of its sessions. Empty:
  // it is not told.
  std::string advertise_address;
  // After so long without a request, memory goes back to the system.
  absl::Duration idle_trim_delay = absl::Seconds(10);

  // PEM files. The certificate and the key turn TLS on for every address but
  // unix: ones; the client CA makes clients show a certificate that it signed.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  // How often they, and the token file, are looked at.
  absl::Duration tls_reload = absl::Seconds(60);
  // Who may come in, and as which tenant (server/security/token_file.h). Empty:
  // whoever reaches the address.
  std::string auth_token_file;
  // The schema is no secret, but who asks for it may make gRPC parse messages
  // that no limit of ours bounds.
  ReflectionMode reflection = ReflectionMode::kAuto;
  // Whether inference.GRPCInferenceService is served beside our own service.
  bool open_inference = true;
  // Of every tenant whose line of the token file says nothing else, also of the
  // anonymous one. 0: no quota.
  int64_t tenant_max_requests = 0;
  int64_t tenant_max_inflight_bytes = 0;

  LogFormat log_format = LogFormat::kText;
  bool log_requests = true;
  // Share of the rows that the entropy metrics look at.
  double entropy_sample_rate = 0.1;
};

// max_transport_bytes with its default worked out.
int64_t TransportBytes(const ServerOptions& options);

// What its ReflectionMode comes to.
bool ServesReflection(const ServerOptions& options);

// INVALID_ARGUMENT with one line that names the flags that do not fit.
absl::Status Validate(const ServerOptions& options);

}  // namespace attn
