// Which call starts when, seen from outside.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One worker, and a budget that holds one large call: two cannot start
// together.
ServerOptions OneAtATime() {
  ServerOptions options = TestOptionsWithMetrics();
  options.compute_threads = 1;
  options.max_batch_tokens = 100;
  return options;
}

// 60 of the 75 tokens that large calls may have, and too much work to be
// computed where it arrives.
wire::AttendRequest LargeRequest() {
  return RandomRequest(
      {.q_heads = 4, .kv_heads = 4, .q_length = 60, .kv_length = 60}, 7);
}

// As large, and many milliseconds of work: whoever hears of one call's end
// hears of it before the next one ends.
wire::AttendRequest LongRequest() {
  wire::AttendRequest request = RandomRequest(
      {.q_heads = 128, .kv_heads = 128, .q_length = 60, .kv_length = 60}, 7);
  request.set_kernel("reference");
  return request;
}

std::unique_ptr<PendingCall> Start(const RunningServer& server,
                                   const google::protobuf::Message& request) {
  auto call = std::make_unique<PendingCall>(server.Connect(), kAttendPath,
                                            ToRequest(request));
  call->Start();
  return call;
}

TEST(Batching, AmongCallsThatWaitPriorityDecides) {
  RunningServer server(OneAtATime());
  const auto slow = Start(server, SlowRequest());
  server.MetricReaching("attn_batch_requests_count", 1);
  Mutex mutex;
  std::vector<std::string> ended;
  std::vector<std::thread> callers;
  double depth = 0;
  const std::pair<const char*, wire::Priority> calls[] = {
      {"low", wire::PRIORITY_LOW},
      {"normal", wire::PRIORITY_UNSPECIFIED},
      {"high", wire::PRIORITY_HIGH}};
  for (const auto& [name, priority] : calls) {
    callers.emplace_back([&, name = name, priority = priority] {
      wire::AttendRequest request = LongRequest();
      request.set_priority(priority);
      wire::AttendResponse response;
      const grpc::Status status = server.Attend(request, &response);
      const MutexLock lock(mutex);
      ended.emplace_back(status.ok() ? name : status.error_message());
    });
    server.MetricReaching("attn_queue_depth", ++depth);
  }
  slow->Cancel();
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(ended, ElementsAre("high", "normal", "low"));
}

TEST(Batching, AnUnknownPriorityIsNamed) {
  RunningServer server;
  wire::AttendRequest request = RandomRequest({}, 1);
  request.set_priority(static_cast<wire::Priority>(9));
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("priority: got 9, expected one of PRIORITY_"));
}

TEST(Batching, SmallAndMediumCallsPassALongOneThatRuns) {
  ServerOptions options = TestOptions();
  options.compute_threads = 1;
  RunningServer server(options);
  const auto slow = Start(server, SlowRequest());
  // Computed where it arrives, and by the worker between two tiles.
  for (const int64_t length : {5, 300}) {
    wire::AttendResponse response;
    EXPECT_TRUE(
        server
            .Attend(RandomRequest({.q_length = length, .kv_length = length}, 2),
                    &response)
            .ok());
  }
  EXPECT_FALSE(slow->WaitFor(std::chrono::nanoseconds(0)));
  slow->Cancel();
}

TEST(Batching, CallsThatHadToWaitStartAsOneBatch) {
  constexpr int kCalls = 6;
  ServerOptions options = TestOptionsWithMetrics();
  options.compute_threads = 1;
  // Every call of this test is of the small lane, the slow one too.
  options.max_batch_tokens = 16 * 2048;
  RunningServer server(options);
  const auto slow = Start(server, SlowRequest());
  server.MetricReaching("attn_batch_requests_count", 1);
  std::vector<std::unique_ptr<PendingCall>> waiting;
  for (int i = 0; i < kCalls; ++i) {
    waiting.push_back(Start(server, LargeRequest()));
  }
  server.MetricReaching("attn_queue_depth", kCalls);
  slow->Cancel();
  for (const auto& call : waiting) EXPECT_TRUE(call->Wait().ok());
  EXPECT_EQ(server.MetricValue("attn_batch_requests_count"), 2);
  EXPECT_EQ(server.MetricValue("attn_batch_requests_sum"), 1 + kCalls);
  EXPECT_EQ(server.MetricValue("attn_batch_ready_requests_total"), 1 + kCalls);
  for (const auto& call : waiting) {
    wire::AttendResponse response;
    ASSERT_TRUE(call->Parse(response));
    EXPECT_EQ(response.report().batch_calls(), kCalls);
    EXPECT_EQ(response.report().ready_calls(), kCalls);
  }
}

TEST(Batching, WithADelayACallWaitsForCompany) {
  ServerOptions options = TestOptionsWithMetrics();
  options.max_queue_delay = absl::Hours(1);
  options.max_batch_tokens = 16 * 60;
  RunningServer server(options);
  std::vector<std::unique_ptr<PendingCall>> waiting;
  // 16 calls of 60 tokens are the budget, and the last starts them all.
  for (int i = 0; i < 15; ++i) {
    waiting.push_back(Start(server, LargeRequest()));
    server.MetricReaching("attn_queue_depth", i + 1);
  }
  EXPECT_EQ(server.MetricValue("attn_batch_requests_count"), 0);
  waiting.push_back(Start(server, LargeRequest()));
  for (const auto& call : waiting) EXPECT_TRUE(call->Wait().ok());
  EXPECT_EQ(server.MetricValue("attn_batch_requests_count"), 1);
}

// 20 callers keep a queue; whoever has less time than it takes is told at once.
TEST(Batching, ADeadlineThatCannotBeMetIsRefusedOnArrival) {
  RunningServer server(OneAtATime());
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back([&server, &stop] {
      wire::AttendRequest request = RandomRequest(
          {.q_heads = 8, .kv_heads = 8, .q_length = 60, .kv_length = 600}, 7);
      request.set_kernel("reference");
      while (!stop) {
        wire::AttendResponse response;
        server.Attend(request, &response);
      }
    });
  }
  const auto patience =
      std::chrono::steady_clock::now() + std::chrono::minutes(2);
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(30));
    wire::AttendResponse response;
    status = server.stub().Attend(&context, LargeRequest(), &response);
  } while (status.error_message().find("cannot be met") == std::string::npos &&
           std::chrono::steady_clock::now() < patience);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("cannot be met"));
}

}  // namespace
}  // namespace attn
