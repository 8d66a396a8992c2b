// Streams that are given up at any moment, whole calls and chunks mixed.
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"
#include "tests/integration/server/stream_client.h"

namespace attn {
namespace {

bool IsExpected(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

// One call in one of its forms; some are cancelled, some time out.
void WriteCall(StreamClient& stream, uint64_t call,
               const wire::AttendRequest& request, std::minstd_rand& random) {
  const bool chunked = random() % 2 == 0;
  wire::AttendStreamRequest opening =
      chunked ? HeaderOf(call, request) : WholeOf(call, request);
  if (random() % 3 == 0) opening.set_timeout_ms(1 + random() % 4);
  bool ok = stream.Write(opening);
  if (chunked && ok) ok = stream.Write(ChunksOf(call, request, 3000));
  if (ok && random() % 3 == 0) stream.Write(CancelOf(call));
}

// Writes and reads at once, and leaves in one of three ways.
void UseStream(RunningServer& server, const wire::AttendRequest& request,
               std::minstd_rand& random) {
  constexpr uint64_t kCalls = 12;
  StreamClient stream(server);
  uint64_t answers = 0;
  std::thread reader([&stream, &answers] {
    while (const auto answer = stream.Next()) {
      ++answers;
      EXPECT_TRUE(IsExpected(answer->code())) << answer->status.message();
    }
  });
  for (uint64_t call = 1; call <= kCalls; ++call) {
    WriteCall(stream, call, request, random);
  }
  const bool stays = random() % 3 == 0;
  if (stays) {
    stream.WritesDone();
  } else {
    stream.Cancel();
  }
  reader.join();
  if (stays) {
    EXPECT_EQ(answers, kCalls);
  }
}

TEST(AttendStreamSoak, NothingIsLostOrKeptWhoeverLeavesWhenever) {
  constexpr uint32_t kThreads = 4;
  constexpr int kStreams = 15;
  ServerOptions options = TestOptionsWithMetrics();
  // Some calls wait, some are refused; some streams are held up.
  options.max_batch_tokens = 64;
  options.max_queue_size = 4;
  options.max_stream_calls = 5;
  options.max_message_bytes = 40000;
  RunningServer server(options);
  wire::AttendRequest request =
      RandomRequest({.q_length = 96, .kv_length = 96, .dim = 16}, 8);
  // 72 KiB: the answer comes in chunks.
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&server, &request, i] {
      std::minstd_rand random(i + 1);
      for (int stream = 0; stream < kStreams; ++stream) {
        UseStream(server, request, random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  EXPECT_EQ(server.MetricValue("attn_queue_depth"), 0);
  StreamClient stream(server);
  ASSERT_TRUE(stream.Call(1, request));
  EXPECT_EQ(stream.Take(1)[1].code(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace attn
