#include "tests/bench/serving/bench_servers.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/bench/probe.h"

namespace attn {
namespace {

constexpr auto kPollEvery = std::chrono::milliseconds(1);
// Importing torch takes some seconds.
constexpr auto kLongestStart = std::chrono::seconds(60);

// A path that no other server of this program has.
std::string UnixAddress() {
  static int servers = 0;
  const std::string name =
      absl::StrCat("attn-bench-", getpid(), "-", ++servers, ".sock");
  return absl::StrCat("unix:",
                      (std::filesystem::temp_directory_path() / name).string());
}

void WaitForServing(const std::vector<std::string>& command,
                    ServingProcess& server) {
  const auto start = std::chrono::steady_clock::now();
  server.process = std::make_unique<ChildProcess>(command);
  while (!IsServing(ChannelTo(server.address))) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (!server.process->Running() || waited > kLongestStart) {
      throw std::runtime_error(command[0] + " does not serve");
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  server.start_milliseconds = std::chrono::duration<double, std::milli>(
                                  std::chrono::steady_clock::now() - start)
                                  .count();
}

}  // namespace

ServingProcess StartAttn(const ServingSetting& setting,
                         const std::vector<std::string>& flags) {
  ServingProcess server;
  server.address = FreeLoopbackAddress();
  server.unix_address = UnixAddress();
  server.metrics_address = FreeLoopbackAddress();
  std::vector<std::string> command = {
      setting.attn_server,
      absl::StrCat("--grpc_address=", server.address, ",", server.unix_address),
      absl::StrCat("--metrics_address=", server.metrics_address),
      "--drain_delay=0s"};
  command.insert(command.end(), flags.begin(), flags.end());
  WaitForServing(command, server);
  return server;
}

ServingProcess StartEcho(const ServingSetting& setting, size_t response_bytes) {
  ServingProcess server;
  server.address = FreeLoopbackAddress();
  server.unix_address = UnixAddress();
  WaitForServing({setting.echo_server, absl::StrCat(response_bytes),
                  server.address, server.unix_address},
                 server);
  return server;
}

ServingProcess StartTorch(const ServingSetting& setting, unsigned processes) {
  ServingProcess server;
  server.address = FreeLoopbackAddress();
  // Of this shell's settings none may reach it.
  WaitForServing(
      {"/usr/sbin/chroot", setting.peers_root, "/usr/bin/env", "-i",
       "PATH=/usr/bin:/bin", "HOME=/root", "/opt/attn-peers/torch_server.sh",
       server.address, absl::StrCat("--processes=", processes)},
      server);
  return server;
}

}  // namespace attn
