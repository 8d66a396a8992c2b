// A fleet whose servers are restarted one after the other, under load.
//
//   ATTN_RESTART_CALLS=100000   as many calls as that at least
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

constexpr size_t kServers = 3;
constexpr size_t kClients = 4;
constexpr int kRounds = 2;

int LeastCalls() {
  // Before any thread exists.
  const char* asked = std::getenv(  // NOLINT(concurrency-mt-unsafe)
      "ATTN_RESTART_CALLS");
  return asked == nullptr ? 0 : std::atoi(asked);
}

// Turns to the servers that say SERVING, and tries elsewhere if one is gone.
constexpr char kServiceConfig[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": "attention.v1.AttentionService"},
  "methodConfig": [{
    "name": [{"service": "attention.v1.AttentionService"}],
    "waitForReady": true,
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.01s",
                    "maxBackoff": "0.1s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]}}]})";

// What clients call without a pause, and how often each was served.
struct Load {
  std::atomic<bool> over{false};
  std::array<std::atomic<int>, kClients> served{};
  std::atomic<int> failed{0};

  int total() const { return std::accumulate(served.begin(), served.end(), 0); }
  void Run(const std::shared_ptr<grpc::Channel>& channel, size_t client) {
    const auto stub = wire::AttentionService::NewStub(channel);
    const wire::AttendRequest request =
        RandomRequest({}, static_cast<uint32_t>(client));
    while (!over) {
      grpc::ClientContext context;
      wire::AttendResponse response;
      const grpc::Status status = stub->Attend(&context, request, &response);
      ++(status.ok() ? served[client] : failed);
      EXPECT_TRUE(status.ok())
          << status.error_code() << ": " << status.error_message();
    }
  }
  // Until each client was served `calls` times more.
  void Await(int calls) const {
    for (const std::atomic<int>& client : served) {
      const int enough = client + calls;
      EXPECT_TRUE(Becomes([&] { return client >= enough; }));
    }
  }
};

class Fleet {
 public:
  Fleet() {
    for (size_t i = 0; i < kServers; ++i) {
      addresses_.emplace_back("127.0.0.1:0");
      Start(i);
      addresses_[i] = servers_[i]->address();
    }
  }

  std::shared_ptr<grpc::Channel> Connect() const {
    std::string target = "ipv4:" + addresses_[0];
    for (size_t i = 1; i < kServers; ++i) target += "," + addresses_[i];
    grpc::ChannelArguments arguments;
    arguments.SetServiceConfigJSON(kServiceConfig);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A server that comes back is noticed soon.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  // As SIGTERM and the next start do, on the same port. The drain delay is as
  // long as it takes until no client comes any more.
  void Restart(size_t i, const Load& load) {
    std::thread stop([this, i] { servers_[i]->Stop(); });
    EXPECT_TRUE(Becomes([&] {
      const int requests = requests_[i];
      load.Await(kNoticed);
      return requests == requests_[i];
    }));
    servers_[i]->server().Hurry();
    stop.join();
    servers_[i].reset();
    Start(i);
  }

 private:
  // A client for which a server is in turn leaves it out so often by chance
  // once in 10^10 times.
  static constexpr int kNoticed = 60;

  void Start(size_t i) {
    ServerOptions options = TestOptions();
    options.grpc_addresses = {addresses_[i]};
    options.drain_delay = absl::InfiniteDuration();
    servers_[i] = std::make_unique<RunningServer>(
        options, [count = &requests_[i]](const std::string& line) {
          if (line.find(" request id=") != std::string::npos) ++*count;
        });
  }

  std::vector<std::string> addresses_;
  std::array<std::atomic<int>, kServers> requests_{};
  std::array<std::unique_ptr<RunningServer>, kServers> servers_;
};

TEST(RollingRestart, LosesNoCall) {
  Fleet fleet;
  Load load;
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [&load, channel = fleet.Connect(), i] { load.Run(channel, i); });
  }
  const int least = LeastCalls();
  for (int round = 0; round < kRounds || load.total() < least; ++round) {
    for (size_t i = 0; i < kServers; ++i) fleet.Restart(i, load);
  }
  load.over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(load.failed, 0);
  if (least > 0) std::printf("%d calls served\n", load.total());
}

}  // namespace
}  // namespace attn
