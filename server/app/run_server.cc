#include "server/app/run_server.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "engine/engine.h"
#include "server/app/flags.h"
#include "server/app/memory_settings.h"
#include "server/app/server.h"
#include "server/app/signal_watcher.h"

namespace attn {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "attn-server: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

// Until a signal. The log is written when this returns, before any error.
absl::Status Serve(const ServerOptions& options, SignalWatcher& signals) {
  const LineLog log(options.log_format,
                    LineLog::StandardError(options.log_format));
  auto server =
      Server::Start(options, log, [&signals] { return signals.HasFirst(); });
  if (!server.ok()) return server.status();
  signals.WaitForFirst();
  signals.OnSecond([&server] { (*server)->Hurry(); });
  (*server)->Stop();
  signals.OnSecond(nullptr);
  return absl::OkStatus();
}

}  // namespace

int RunServer(int argc, char** argv) {
  // A debugging aid of the library that its packaged build leaves on; gRPC's
  // locks pay for it with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  TuneMalloc();
  QuietGrpc();
  const auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) return Fail(flags.status());
  if (flags->print_config) {
    std::fputs(flags->config.c_str(), stdout);
    return 0;
  }
  const absl::Status limited = LimitIsa(flags->options.max_isa);
  if (!limited.ok()) return Fail(limited);
  // Before warm-up, and before any other thread.
  SignalWatcher signals;
  KeepBuffers(static_cast<size_t>(flags->options.max_inflight_bytes) +
              static_cast<size_t>(flags->options.max_layer_bytes));
  const absl::Status served = Serve(flags->options, signals);
  return served.ok() ? 0 : Fail(served);
}

}  // namespace attn
