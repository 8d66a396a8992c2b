#include "server/app/run_server.h"

#include <cstdio>
#include <memory>
#include <string>

#include "server/app/flags.h"
#include "server/app/malloc_settings.h"
#include "server/app/server.h"
#include "server/app/signal_watcher.h"

namespace attn {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "attn-server: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int RunServer(int argc, char** argv) {
  TuneMalloc();
  QuietGrpc();
  const auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) return Fail(flags.status());
  if (flags->print_config) {
    std::fputs(flags->config.c_str(), stdout);
    return 0;
  }
  // Before warm-up, and before any other thread.
  SignalWatcher signals;
  const LineLog log(flags->options.log_format, LineLog::StandardError());
  auto server = Server::Start(flags->options, log);
  if (!server.ok()) return Fail(server.status());
  signals.WaitForFirst();
  signals.OnSecond([&server] { (*server)->Hurry(); });
  (*server)->Stop();
  signals.OnSecond(nullptr);
  return 0;
}

}  // namespace attn
