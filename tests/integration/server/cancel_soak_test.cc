// Deadlines and cancellations at any moment of a call's life.
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

// About as long as a call takes, so that some end before and some after.
constexpr int kLongestMicroseconds = 4000;

bool IsExpected(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

// One call that is given up after a random time, by deadline or by hand.
void CallAndGiveUp(wire::AttentionService::Stub& stub,
                   const wire::AttendRequest& request,
                   std::minstd_rand& random) {
  const auto patience =
      std::chrono::microseconds(random() % kLongestMicroseconds);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  std::thread gives_up;
  if (random() % 2 == 0) {
    gives_up = std::thread([&context] { context.TryCancel(); });
  }
  wire::AttendResponse response;
  const grpc::Status status = stub.Attend(&context, request, &response);
  EXPECT_TRUE(IsExpected(status.error_code())) << status.error_message();
  if (gives_up.joinable()) gives_up.join();
}

TEST(CancelSoak, NoCallIsLostOrRepliedToTwice) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 150;
  ServerOptions options = TestOptionsWithMetrics();
  // Some calls wait, some are refused.
  options.max_batch_tokens = 64;
  options.max_queue_size = 2;
  RunningServer server(options);
  const wire::AttendRequest request =
      RandomRequest({.q_length = 96, .kv_length = 96, .dim = 32}, 8);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&server, &request, i] {
      const auto stub = wire::AttentionService::NewStub(
          RunningServer::Connect(server.address()));
      std::minstd_rand random(i + 1);
      for (int call = 0; call < kCalls; ++call) {
        CallAndGiveUp(*stub, request, random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (server.MetricValue("attn_inflight_requests") != 0) {
  }
  while (server.MetricValue("attn_inflight_bytes") != 0) {
  }
  EXPECT_EQ(server.MetricValue("attn_queue_depth"), 0);
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(request, &response).ok());
}

}  // namespace
}  // namespace attn
