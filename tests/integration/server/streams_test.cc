// --max-concurrent-streams: a client that asks for more at once waits.
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

constexpr char kServed[] =
    "attn_requests_total{code=\"OK\",method=\"Attend\",variant=\"dot_"
    "softmax\"}";

TEST(Streams, ACallBeyondTheConnectionsShareWaitsAndIsServed) {
  constexpr int kOthers = 20;
  ServerOptions options = TestOptionsWithMetrics();
  options.max_concurrent_streams = 1;
  RunningServer server(options);
  const grpc::ByteBuffer small = ToRequest(RandomRequest({}, 1));
  const auto connection = server.Connect();
  // Makes the connection, so that its limit is known to the client.
  PendingCall first(connection, kAttendPath, small);
  first.Start();
  ASSERT_TRUE(first.Wait().ok());
  EXPECT_EQ(server.MetricReaching(kServed, 1), 1);
  PendingCall slow(connection, kAttendPath, ToRequest(SlowRequest()));
  slow.Start();
  // It has the connection's only stream.
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 1), 1);
  PendingCall waiting(connection, kAttendPath, small);
  waiting.Start();
  // Another connection has a share of its own.
  for (int i = 0; i < kOthers; ++i) {
    wire::AttendResponse response;
    EXPECT_TRUE(server.Attend(RandomRequest({}, 1), &response).ok());
  }
  EXPECT_EQ(server.MetricReaching(kServed, 1 + kOthers), 1 + kOthers)
      << "the one that waits came in";
  EXPECT_EQ(waiting.ends(), 0);
  slow.Cancel();
  EXPECT_TRUE(waiting.Wait().ok()) << "it waited, and was not refused";
  EXPECT_EQ(slow.Wait().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server.MetricReaching(kServed, 2 + kOthers), 2 + kOthers);
}

}  // namespace
}  // namespace attn
