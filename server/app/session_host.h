// The sessions of a server: their store, their service, and what forgets those
// that are idle.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/runtime/clock.h"
#include "server/app/options.h"
#include "server/metrics/metrics_server.h"
#include "server/rpc/call_context.h"
#include "server/rpc/caller.h"
#include "server/rpc/line_log.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/session_service.h"
#include "server/security/periodic_task.h"
#include "server/sessions/session_spiller.h"
#include "server/sessions/session_store.h"

namespace attn {

// Thread-safe. Must outlive the gRPC server.
class SessionHost {
 public:
  // With the sessions of --session-dir, if there is one. FAILED_PRECONDITION
  // names it if it cannot be used. All must outlive this.
  static absl::StatusOr<std::unique_ptr<SessionHost>> Open(
      const ServerOptions& options, const Clock& clock, Engine& engine,
      const LineLog& log);

  // When nobody calls any more: those that are in memory go to --session-dir.
  // A line of the log says how many. Blocks on the disk.
  void SpillAll();

  SessionStore& store() { return store_; }
  KvSessionValues values() const;

  // Makes the service; `calls` has the store. All must outlive this.
  void Serve(const CallContext& calls, const CallerReader& callers,
             ReplyWatch& replies);
  // After Serve().
  SessionService& service() { return *service_; }

 private:
  SessionHost(const ServerOptions& options, const Clock& clock,
              std::unique_ptr<SessionSpiller> spiller, const LineLog& log);

  const ServerOptions& options_;
  const LineLog& log_;
  SessionStore store_;
  std::unique_ptr<SessionServiceContext> context_;
  std::unique_ptr<SessionService> service_;
  // End first. A disk that hangs keeps nobody from being forgotten.
  PeriodicTask forgetting_;
  std::unique_ptr<PeriodicTask> spilling_;
};

}  // namespace attn
