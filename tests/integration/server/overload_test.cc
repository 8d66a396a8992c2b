// Many times more calls than the server can take, sent whether it answers or
// not.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int kConnections = 8;
constexpr int kPlaces = 4;
// Sent at once: 100 for each place.
constexpr int kCalls = 100 * kPlaces;

class Overload : public ::testing::Test {
 protected:
  static ServerOptions Options() {
    ServerOptions options = TestOptionsWithMetrics();
    options.compute_threads = 1;
    options.max_concurrent_requests = kPlaces;
    options.max_queue_size = 2;
    return options;
  }

  // Sends all calls before it looks at any answer.
  std::vector<std::unique_ptr<PendingCall>> Flood() {
    const grpc::ByteBuffer request = ToRequest(RandomRequest(
        {.q_heads = 4, .kv_heads = 4, .q_length = 128, .kv_length = 128}, 1));
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < kConnections; ++i)
      channels.push_back(server_.Connect());
    std::vector<std::unique_ptr<PendingCall>> calls;
    for (int i = 0; i < kCalls; ++i) {
      calls.push_back(std::make_unique<PendingCall>(
          channels[static_cast<size_t>(i % kConnections)], kAttendPath,
          request));
      calls.back()->Start();
    }
    return calls;
  }

  RunningServer server_{Options()};
};

TEST_F(Overload, EveryCallIsServedOrRefusedOnceWithATypedReasonThatIsCounted) {
  std::map<grpc::StatusCode, int> ended;
  for (const auto& call : Flood()) {
    const grpc::Status& status = call->Wait();
    ++ended[status.error_code()];
    EXPECT_EQ(call->ends(), 1);
    if (status.ok()) continue;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << status.error_message();
    EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
    EXPECT_THAT(status.error_message(), HasSubstr("--max-"));
  }
  const int served = ended[grpc::StatusCode::OK];
  const int refused = ended[grpc::StatusCode::RESOURCE_EXHAUSTED];
  EXPECT_EQ(served + refused, kCalls);
  EXPECT_GT(served, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(server_.MetricReaching(
                "attn_requests_rejected_total{reason=\"queue_full\"}", refused),
            refused);
  EXPECT_EQ(server_.MetricBecoming("attn_inflight_requests", 0), 0);
  EXPECT_EQ(server_.MetricValue("attn_queue_depth"), 0);
  wire::AttendResponse response;
  EXPECT_TRUE(server_.Attend(RandomRequest({}, 1), &response).ok());
}

}  // namespace
}  // namespace attn
