#include "server/app/session_flags.h"

#include <cstdint>
#include <string>

#include "absl/flags/flag.h"
#include "absl/time/time.h"

ABSL_FLAG(int64_t, max_session_bytes, attn::ServerOptions{}.max_session_bytes,
          "Memory of all sessions together.");
ABSL_FLAG(int64_t, max_sessions, attn::ServerOptions{}.max_sessions,
          "Sessions, whatever they hold.");
ABSL_FLAG(int64_t, max_tenant_session_bytes,
          attn::ServerOptions{}.max_tenant_session_bytes,
          "The same of one tenant's; 0: no bound.");
ABSL_FLAG(absl::Duration, session_idle_timeout,
          attn::ServerOptions{}.session_idle_timeout,
          "A session without a step for so long is forgotten; also the most "
          "that one may ask for.");
ABSL_FLAG(absl::Duration, session_evict_after,
          attn::ServerOptions{}.session_evict_after,
          "A session without a step for so long makes room for others when "
          "memory is short.");
ABSL_FLAG(std::string, session_dir, "",
          "Where idle sessions are spilled, and all at the stop; empty: none.");
ABSL_FLAG(absl::Duration, session_spill_after,
          attn::ServerOptions{}.session_spill_after,
          "A session without a step for so long is spilled; 0s: only when "
          "memory is short.");
ABSL_FLAG(int64_t, max_spill_bytes, attn::ServerOptions{}.max_spill_bytes,
          "Spilled sessions together; 0: no bound.");
ABSL_FLAG(std::string, advertise_address, "",
          "Where this server alone is reached, which sessions tell their "
          "clients; empty: nothing is told.");

namespace attn {

absl::Span<const char* const> SessionFlags() {
  static constexpr const char* kNames[] = {
      "max_session_bytes",    "max_tenant_session_bytes", "max_sessions",
      "session_idle_timeout", "session_evict_after",      "session_dir",
      "session_spill_after",  "max_spill_bytes",          "advertise_address"};
  return kNames;
}

void AddSessionOptions(ServerOptions& options) {
  options.max_session_bytes = absl::GetFlag(FLAGS_max_session_bytes);
  options.max_tenant_session_bytes =
      absl::GetFlag(FLAGS_max_tenant_session_bytes);
  options.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  options.session_evict_after = absl::GetFlag(FLAGS_session_evict_after);
  options.session_idle_timeout = absl::GetFlag(FLAGS_session_idle_timeout);
  options.session_dir = absl::GetFlag(FLAGS_session_dir);
  options.session_spill_after = absl::GetFlag(FLAGS_session_spill_after);
  options.max_spill_bytes = absl::GetFlag(FLAGS_max_spill_bytes);
  options.advertise_address = absl::GetFlag(FLAGS_advertise_address);
}

}  // namespace attn
