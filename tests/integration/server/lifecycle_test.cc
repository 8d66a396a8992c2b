// Start, health, reflection, drain, stop.
#include <future>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

TEST(Lifecycle, ReflectionListsTheService) {
  RunningServer server;
  std::string response;
  // ServerReflectionRequest { string list_services = 7; }
  RawExchange(server.Connect(),
              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x00", 2), &response);
  EXPECT_THAT(response, HasSubstr(kService));
}

TEST(Lifecycle, ADrainingServerSaysSoAndServesOn) {
  ServerOptions options = TestOptions();
  options.drain_delay = absl::InfiniteDuration();
  RunningServer server(options);
  const auto channel = server.Connect();
  std::thread stop([&server] { server.Stop(); });
  while (HealthOf(channel, kService) != "NOT_SERVING") {
  }
  EXPECT_EQ(HealthOf(channel, ""), "NOT_SERVING");
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 1), &response).ok());
  server.server().Hurry();
  stop.join();
  EXPECT_EQ(server.Attend(RandomRequest({}, 1), &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST(Lifecycle, ACallInsideIsServedToItsEndWhenTheServerStops) {
  RunningServer server(TestOptionsWithMetrics());
  wire::AttendRequest request = RandomRequest(
      {.q_heads = 4, .kv_heads = 4, .q_length = 256, .kv_length = 256}, 2);
  request.set_kernel("reference");
  auto inside = std::async(std::launch::async, [&server, &request] {
    wire::AttendResponse response;
    return server.Attend(request, &response).ok();
  });
  while (server.MetricValue("attn_batch_requests_count") < 1) {
  }
  server.Stop();
  EXPECT_TRUE(inside.get());
}

TEST(Lifecycle, AHurriedStopCancelsThoseInside) {
  RunningServer server(TestOptionsWithMetrics());
  auto inside = std::async(std::launch::async, [&server] {
    wire::AttendResponse response;
    return server.Attend(SlowRequest(), &response).error_code();
  });
  while (server.MetricValue("attn_batch_requests_count") < 1) {
  }
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
  EXPECT_EQ(server.MetricValue("attn_requests_total{code=\"OK\",method="
                               "\"Attend\",variant=\"dot_softmax\"}"),
            1);
  EXPECT_EQ(server.MetricValue("attn_payload_copies_total"), 3);
  EXPECT_EQ(server.MetricValue("attn_inflight_requests"), 0);
  EXPECT_GT(server.MetricValue("attn_compute_busy_seconds_total"), 0);
  EXPECT_GT(server.MetricValue("process_start_time_seconds"), 0);
}

}  // namespace
}  // namespace attn
