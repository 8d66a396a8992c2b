// Start, health, reflection, drain, stop.
#include <future>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kService[] = "attention.v1.AttentionService";

TEST(Lifecycle, AStartedServerIsServing) {
  RunningServer server;
  const auto channel = server.Connect();
  EXPECT_EQ(HealthOf(channel, ""), "SERVING");
  EXPECT_EQ(HealthOf(channel, kService), "SERVING");
  EXPECT_NE(HealthOf(channel, "unknown.Service"), "SERVING");
}

// The addresses of the line that says so, or nothing.
std::string ListeningOn(const std::string& line) {
  const std::string before = "listening on ";
  const std::string after = ": NOT_SERVING until warm";
  const size_t begin = line.find(before);
  const size_t end = line.find(after);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return line.substr(begin + before.size(), end - begin - before.size());
}

TEST(Lifecycle, UntilItIsWarmAServerSaysNotServingAndTakesNoCalls) {
  std::string health;
  grpc::StatusCode code = grpc::StatusCode::OK;
  // The server waits for its log, before the warm-up.
  RunningServer server(TestOptions(), [&](const std::string& line) {
    const std::string address = ListeningOn(line);
    if (address.empty()) return;
    const auto channel = RunningServer::Connect(address);
    health = HealthOf(channel, kService);
    grpc::ClientContext context;
    wire::AttendResponse response;
    code = wire::AttentionService::NewStub(channel)
               ->Attend(&context, RandomRequest({}, 1), &response)
               .error_code();
  });
  EXPECT_EQ(health, "NOT_SERVING");
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(HealthOf(server.Connect(), kService), "SERVING");
}

TEST(Lifecycle, AServerAskedToStopWhileItWarmsUpNeverServes) {
  std::string said;
  const LineLog log(LogFormat::kText,
                    [&said](const std::string& line) { said += line; });
  ServerOptions options = TestOptions();
  options.drain_delay = absl::InfiniteDuration();
  const auto server = Server::Start(options, log, [] { return true; });
  ASSERT_TRUE(server.ok());
  const auto channel =
      RunningServer::Connect((*server)->grpc_addresses().front());
  EXPECT_EQ(HealthOf(channel, kService), "NOT_SERVING");
  // Nobody came: there is nothing to wait for.
  (*server)->Stop();
  EXPECT_THAT(said, ::testing::Not(HasSubstr("info SERVING on")));
}

TEST(Lifecycle, ReflectionListsTheService) {
  RunningServer server;
  std::string response;
  ListServices(server.Connect(), &response);
  EXPECT_THAT(response, HasSubstr(kService));
}

TEST(Lifecycle, ADrainingServerSaysSoAndServesOn) {
  ServerOptions options = TestOptions();
  options.drain_delay = absl::InfiniteDuration();
  RunningServer server(options);
  const auto channel = server.Connect();
  std::thread stop([&server] { server.Stop(); });
  EXPECT_TRUE(
      Becomes([&] { return HealthOf(channel, kService) == "NOT_SERVING"; }));
  EXPECT_EQ(HealthOf(channel, ""), "NOT_SERVING");
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 1), &response).ok());
  server.server().Hurry();
  stop.join();
  EXPECT_EQ(server.Attend(RandomRequest({}, 1), &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

// It has not even begun when the server takes no more: it waits behind another.
TEST(Lifecycle, ACallInsideIsServedToItsEndWhenTheServerStops) {
  ServerOptions options = TestOptionsWithMetrics();
  options.compute_threads = 1;
  // Of one large call.
  options.max_batch_tokens = 100;
  RunningServer server(options);
  PendingCall slow(server.Connect(), kAttendPath, ToRequest(SlowRequest()));
  slow.Start();
  EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  PendingCall inside(
      server.Connect(), kAttendPath,
      ToRequest(RandomRequest(
          {.q_heads = 4, .kv_heads = 4, .q_length = 60, .kv_length = 60}, 2)));
  inside.Start();
  EXPECT_EQ(server.MetricReaching("attn_queue_depth", 1), 1);
  std::thread stop([&server] { server.Stop(); });
  EXPECT_TRUE(Becomes([&server] {
    wire::AttendResponse response;
    return server.Attend(RandomRequest({}, 1), &response).error_code() ==
           grpc::StatusCode::UNAVAILABLE;
  }));
  EXPECT_EQ(inside.ends(), 0);
  slow.Cancel();
  EXPECT_TRUE(inside.Wait().ok()) << inside.Wait().error_message();
  EXPECT_EQ(slow.Wait().error_code(), grpc::StatusCode::CANCELLED);
  stop.join();
}

TEST(Lifecycle, AHurriedStopCancelsThoseInside) {
  RunningServer server(TestOptionsWithMetrics());
  auto inside = std::async(std::launch::async, [&server] {
    wire::AttendResponse response;
    return server.Attend(SlowRequest(), &response).error_code();
  });
  EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  server.server().Hurry();
  server.Stop();
  EXPECT_NE(inside.get(), grpc::StatusCode::OK);
}

TEST(Lifecycle, ASecondServerOnThePortIsToldWhichFlagToChange) {
  RunningServer first;
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  ServerOptions options = TestOptions();
  options.grpc_addresses = {first.address()};
  const auto second = Server::Start(options, log);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("--grpc-address=" + first.address()),
                    HasSubstr("Address already in use")));
}

TEST(Lifecycle, ATakenMetricsPortIsToldWhichFlagToChange) {
  RunningServer first(TestOptionsWithMetrics());
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  ServerOptions options = TestOptions();
  options.metrics_address = first.server().metrics_address();
  const auto second = Server::Start(options, log);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("--metrics-address="),
                    HasSubstr("Address already in use")));
}

TEST(Lifecycle, ALiveUnixSocketIsNotTakenOver) {
  const std::string address =
      "unix:" + ::testing::TempDir() + "/attn_lifecycle_test.sock";
  ServerOptions options = TestOptions();
  options.grpc_addresses = {address};
  RunningServer first(options);
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  EXPECT_FALSE(Server::Start(options, log).ok());
  EXPECT_EQ(HealthOf(first.Connect(), ""), "SERVING");
}

TEST(Lifecycle, MetricsCountWhatWasServed) {
  RunningServer server(TestOptionsWithMetrics());
  wire::AttendResponse response;
  ASSERT_TRUE(server.Attend(RandomRequest({}, 1), &response).ok());
  EXPECT_EQ(server.MetricReaching("attn_requests_total{code=\"OK\",method="
                                  "\"Attend\",variant=\"dot_softmax\"}",
                                  1),
            1);
  EXPECT_EQ(server.MetricValue("attn_payload_copies_total"), 3);
  EXPECT_EQ(server.MetricValue("attn_inflight_requests"), 0);
  EXPECT_GT(server.MetricValue("attn_compute_busy_seconds_total"), 0);
  EXPECT_GT(server.MetricValue("process_start_time_seconds"), 0);
}

}  // namespace
}  // namespace attn
