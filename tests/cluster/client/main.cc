// What a test of a cluster calls it with: the client library, as it is shipped.
//
//   cluster_client calls --address A --calls 10000
//     makes so many at least, until its standard input ends; prints JSON
//   cluster_client sessions --address A --sessions 8
//     reads a number of steps from each line of its standard input, has every
//     session make so many, and prints a line of JSON
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/cluster/client/call_load.h"
#include "tests/cluster/client/decode.h"

namespace attn::cluster {
namespace {

struct Flags {
  std::vector<std::string> addresses;
  int64_t calls = 1000;
  int callers = 8;
  int64_t pause_ms = 0;
  int64_t deadline_ms = 10'000;
  int attempts = RetryPolicy{}.max_attempts;
  uint64_t sessions = 4;
  bool through_proxy = false;

  ClientOptions Client() const {
    ClientOptions options{.address = addresses.front(),
                          .deadline = absl::Milliseconds(deadline_ms)};
    options.retry.max_attempts = attempts;
    return options;
  }
};

int Fail(const absl::Status& status) {
  std::cerr << "cluster_client: " << status << "\n";
  return 1;
}

int RunCalls(const Flags& flags) {
  CallLoad load({.calls = flags.calls,
                 .callers = flags.callers,
                 .pause = absl::Milliseconds(flags.pause_ms),
                 .client = flags.Client()});
  std::thread watch([&load] {
    while (std::cin.get() != std::istream::traits_type::eof()) continue;
    load.Enough();
  });
  const auto told = load.Run();
  watch.join();
  if (!told.ok()) return Fail(told.status());
  std::cout << *told << std::endl;
  return 0;
}

void StepAll(std::vector<Decode>& decodes, int64_t steps,
             absl::Duration pause) {
  std::vector<std::thread> threads;
  for (Decode& decode : decodes) {
    threads.emplace_back(
        [&decode, steps, pause] { decode.Step(steps, pause); });
  }
  for (std::thread& thread : threads) thread.join();
}

int RunSessions(const Flags& flags) {
  RemoteSessionOptions options{.addresses = flags.addresses,
                               .through_proxy = flags.through_proxy,
                               .client = flags.Client()};
  std::vector<Decode> decodes;
  for (uint64_t seed = 0; seed < flags.sessions; ++seed) {
    auto decode = Decode::Open(options, seed);
    if (!decode.ok()) return Fail(decode.status());
    decodes.push_back(*std::move(decode));
  }
  for (int64_t steps = 0; std::cin >> steps;) {
    StepAll(decodes, steps, absl::Milliseconds(flags.pause_ms));
    nlohmann::json told = nlohmann::json::array();
    for (const Decode& decode : decodes) told.push_back(decode.Told());
    std::cout << told << std::endl;
  }
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Calls a cluster of attn servers for its tests");
  app.require_subcommand(1);
  CLI::App* calls = app.add_subcommand("calls");
  CLI::App* sessions = app.add_subcommand("sessions");
  for (CLI::App* command : {calls, sessions}) {
    command->add_option("--address", flags.addresses)->required();
    command->add_option("--deadline-ms", flags.deadline_ms);
    command->add_option("--attempts", flags.attempts);
    command->add_option("--pause-ms", flags.pause_ms);
  }
  calls->add_option("--calls", flags.calls);
  calls->add_option("--callers", flags.callers);
  sessions->add_option("--sessions", flags.sessions);
  sessions->add_flag("--through-proxy", flags.through_proxy);
  CLI11_PARSE(app, argc, argv);
  return *calls ? RunCalls(flags) : RunSessions(flags);
}

}  // namespace
}  // namespace attn::cluster

int main(int argc, char** argv) { return attn::cluster::Main(argc, argv); }
