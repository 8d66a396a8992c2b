#include "server/app/session_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/spill_codec.h"

namespace attn {
namespace {

// Nobody finds a session that is idle for too long; its memory goes so much
// later at most.
absl::Duration LookInterval(const ServerOptions& options) {
  return std::clamp(options.session_idle_timeout / 10, absl::Milliseconds(100),
                    absl::Seconds(5));
}

// A session is spilled so much later at most than --session-spill-after says.
absl::Duration SpillInterval(const ServerOptions& options) {
  return std::clamp(options.session_spill_after / 4, absl::Milliseconds(100),
                    absl::Seconds(5));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionHost>> SessionHost::Open(
    const ServerOptions& options, const Clock& clock, Engine& engine,
    const LineLog& log) {
  std::unique_ptr<SessionSpiller> spiller;
  if (!options.session_dir.empty()) {
    auto directory = SessionDirectory::Open(
        {.path = options.session_dir, .max_bytes = options.max_spill_bytes});
    if (!directory.ok()) return directory.status();
    spiller = std::make_unique<SessionSpiller>(
        *std::move(directory),
        SpillOptions{
            .codec = MakeSpillCodec(engine, options.session_idle_timeout),
            .report = [&log](absl::string_view line) { log.Error(line); }});
  }
  return std::unique_ptr<SessionHost>(
      new SessionHost(options, clock, std::move(spiller), log));
}

SessionHost::SessionHost(const ServerOptions& options, const Clock& clock,
                         std::unique_ptr<SessionSpiller> spiller,
                         const LineLog& log)
    : options_(options),
      log_(log),
      store_({.max_bytes = options.max_session_bytes,
              .max_tenant_bytes = options.max_tenant_session_bytes,
              .max_sessions = options.max_sessions,
              .idle_timeout = options.session_idle_timeout,
              .evict_after = options.session_evict_after,
              .spill_after = options.session_spill_after},
             clock, std::move(spiller)),
      forgetting_(LookInterval(options), [this] { store_.Expire(); }) {
  if (!store_.spills()) return;
  const SessionStore::Totals found = store_.totals();
  log_.Info(absl::StrCat("sessions: ", found.spilled, " of ",
                         found.spilled_bytes, " bytes in ",
                         options.session_dir));
  if (options.session_spill_after > absl::ZeroDuration()) {
    spilling_ = std::make_unique<PeriodicTask>(SpillInterval(options),
                                               [this] { store_.SpillIdle(); });
  }
}

void SessionHost::SpillAll() {
  spilling_.reset();
  if (!store_.spills()) return;
  const int64_t lost = store_.SpillAll();
  log_.Info(absl::StrCat("sessions: ", store_.totals().spilled, " in ",
                         options_.session_dir, ", ", lost, " lost"));
}

KvSessionValues SessionHost::values() const {
  const SessionStore::Totals totals = store_.totals();
  KvSessionValues values;
  values.sessions = static_cast<double>(totals.sessions);
  values.bytes = static_cast<double>(totals.bytes);
  values.capacity_bytes = static_cast<double>(totals.max_bytes);
  values.spilled_sessions = static_cast<double>(totals.spilled);
  values.spilled_bytes = static_cast<double>(totals.spilled_bytes);
  values.spills = static_cast<double>(totals.spills);
  values.restores = static_cast<double>(totals.restores);
  std::copy(std::begin(totals.spill_errors), std::end(totals.spill_errors),
            values.spill_errors.begin());
  std::copy(std::begin(totals.ended), std::end(totals.ended),
            values.closed.begin());
  std::copy(std::begin(totals.errors), std::end(totals.errors),
            values.errors.begin());
  return values;
}

void SessionHost::Serve(const CallContext& calls, const CallerReader& callers,
                        ReplyWatch& replies) {
  context_ = std::make_unique<SessionServiceContext>(SessionServiceContext{
      .calls = calls,
      .callers = callers,
      .replies = replies,
      .short_calls = {.observer = calls.observer,
                      .clock = calls.clock,
                      .callers = callers,
                      .replies = replies,
                      .max_message_bytes = calls.max_message_bytes},
      .owner = options_.advertise_address,
      .idle_timeout = options_.session_idle_timeout});
  service_ = std::make_unique<SessionService>(*context_);
}

}  // namespace attn
