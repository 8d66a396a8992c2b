// AttendStream over the wire: what it gives, in which order, and when it is
// given up.
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"
#include "tests/integration/server/stream_client.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a unary call gives for it, alone on a server without narrow limits.
wire::AttendResponse Unary(const wire::AttendRequest& request) {
  RunningServer server;
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

// Every output, so that each kind of chunk is seen.
wire::AttendRequest WithEveryOutput(const TestShape& shape, uint32_t seed) {
  wire::AttendRequest request = RandomRequest(shape, seed);
  for (int output = wire::OUTPUT_OUTPUT; output <= wire::OUTPUT_LSE_WITH_SINK;
       ++output) {
    request.add_outputs(static_cast<wire::Output>(output));
  }
  request.add_outputs(wire::OUTPUT_HEAD_OUTPUT);
  return request;
}

void ExpectSameBits(const wire::AttendResponse& got,
                    const wire::AttendResponse& expected) {
  EXPECT_EQ(got.output().data(), expected.output().data());
  EXPECT_EQ(got.output().SerializeAsString(),
            expected.output().SerializeAsString());
  EXPECT_EQ(got.lse().data(), expected.lse().data());
  EXPECT_EQ(got.logits().data(), expected.logits().data());
  EXPECT_EQ(got.masked_logits().data(), expected.masked_logits().data());
  EXPECT_EQ(got.weights().data(), expected.weights().data());
  EXPECT_EQ(got.lse_with_sink().data(), expected.lse_with_sink().data());
  EXPECT_EQ(got.head_output().data(), expected.head_output().data());
  EXPECT_EQ(got.row_statistics().entropy().data(),
            expected.row_statistics().entropy().data());
  EXPECT_EQ(got.head_statistics_size(), expected.head_statistics_size());
}

TEST(AttendStream, GivesTheBitsOfAUnaryCall) {
  RunningServer server;
  const wire::AttendRequest request = WithEveryOutput({.q_heads = 4}, 3);
  StreamClient stream(server);
  ASSERT_TRUE(stream.Call(7, request));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->call, 7);
  EXPECT_EQ(answer->messages, 1);
  ExpectSameBits(answer->response, Unary(request));
  EXPECT_FALSE(answer->response.report().request_id().empty());
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(AttendStream, ManyCallsAreInFlightAtOnce) {
  constexpr uint64_t kCalls = 40;
  RunningServer server;
  StreamClient stream(server);
  for (uint64_t call = 1; call <= kCalls; ++call) {
    const auto length = static_cast<int64_t>(call);
    ASSERT_TRUE(stream.Call(call, RandomRequest({.q_length = length},
                                                static_cast<uint32_t>(call))));
  }
  stream.WritesDone();
  const auto answers = stream.Take(kCalls);
  ASSERT_EQ(answers.size(), kCalls);
  for (const auto& [call, answer] : answers) {
    EXPECT_EQ(answer.status.code(), 0) << answer.status.message();
    EXPECT_EQ(answer.response.output().shape(2), static_cast<int64_t>(call));
  }
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(AttendStream, ATinyCallOvertakesAHugeOne) {
  RunningServer server;
  StreamClient stream(server);
  ASSERT_TRUE(stream.Call(1, SlowRequest()));
  ASSERT_TRUE(stream.Call(2, RandomRequest({}, 4)));
  const auto first = stream.Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->call, 2);
  EXPECT_EQ(first->code(), grpc::StatusCode::OK);
  ASSERT_TRUE(stream.Write(CancelOf(1)));
  const auto second = stream.Next();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->call, 1);
  EXPECT_EQ(second->code(), grpc::StatusCode::CANCELLED);
}

TEST(AttendStream, ChunksCarryCallsThatAreLargerThanAMessage) {
  constexpr int64_t kLimit = 20000;
  ServerOptions options = TestOptions();
  options.max_message_bytes = kLimit;
  RunningServer server(options);
  const wire::AttendRequest request =
      WithEveryOutput({.q_length = 60, .kv_length = 70, .dim = 64}, 5);
  ASSERT_GT(request.ByteSizeLong(), kLimit);
  wire::AttendResponse unary;
  const grpc::Status refused = server.Attend(request, &unary);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              AllOf(HasSubstr("--max-message-bytes=20000"),
                    HasSubstr("AttendStream takes larger")));

  StreamClient stream(server);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  ASSERT_TRUE(stream.Write(ChunksOf(1, request, 6999)));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->code(), grpc::StatusCode::OK) << answer->status.message();
  EXPECT_GT(answer->messages, 3);
  EXPECT_LE(answer->longest_message, kLimit);
  ExpectSameBits(answer->response, Unary(request));
}

TEST(AttendStream, ChunksOfSeveralCallsMix) {
  RunningServer server;
  StreamClient stream(server);
  const wire::AttendRequest a = RandomRequest({.q_length = 9}, 1);
  const wire::AttendRequest b = RandomRequest({.q_length = 11}, 2);
  const auto a_chunks = ChunksOf(1, a, 100);
  auto b_chunks = ChunksOf(2, b, 70);
  // The tensors of a call in any order, too.
  std::rotate(b_chunks.begin(), b_chunks.end() - 3, b_chunks.end());
  b_chunks = ChunksOf(2, b, b.q().data().size());
  std::reverse(b_chunks.begin(), b_chunks.end());
  ASSERT_TRUE(stream.Write({HeaderOf(1, a), HeaderOf(2, b)}));
  for (size_t i = 0; i < std::max(a_chunks.size(), b_chunks.size()); ++i) {
    if (i < a_chunks.size()) {
      ASSERT_TRUE(stream.Write(a_chunks[i]));
    }
    if (i < b_chunks.size()) {
      ASSERT_TRUE(stream.Write(b_chunks[i]));
    }
  }
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  ExpectSameBits(answers[1].response, Unary(a));
  ExpectSameBits(answers[2].response, Unary(b));
}

// Small tensors may come in the header beside large ones in chunks.
TEST(AttendStream, AHeaderMayBringSomeOfTheData) {
  RunningServer server;
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  wire::AttendStreamRequest header = HeaderOf(1, request);
  *header.mutable_header()->mutable_k() = request.k();
  *header.mutable_header()->mutable_v() = request.v();
  ASSERT_TRUE(stream.Write(header));
  ASSERT_TRUE(
      stream.Write(ChunkOf(1, wire::TENSOR_SLOT_Q, 0, request.q().data())));
  ASSERT_TRUE(stream.Write(WholeOf(2, request)));
  // A header that brings all of it.
  wire::AttendStreamRequest whole = HeaderOf(3, request);
  *whole.mutable_header() = request;
  ASSERT_TRUE(stream.Write(whole));
  auto answers = stream.Take(3);
  ASSERT_EQ(answers.size(), 3);
  ExpectSameBits(answers[1].response, answers[2].response);
  ExpectSameBits(answers[3].response, answers[2].response);
}

TEST(AttendStream, AClientMayAskForShortMessages) {
  constexpr int64_t kShort = 64 << 10;
  RunningServer server;
  StreamClient stream(server);
  wire::AttendRequest request =
      RandomRequest({.q_length = 200, .kv_length = 300}, 5);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  wire::AttendStreamRequest message = WholeOf(1, request);
  message.set_max_message_bytes(kShort);
  ASSERT_TRUE(stream.Write(message));
  message.set_call(2);
  message.set_max_message_bytes(100);
  ASSERT_TRUE(stream.Write(message));
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  EXPECT_GT(answers[1].messages, 2);
  EXPECT_LE(answers[1].longest_message, kShort);
  ExpectSameBits(answers[1].response, Unary(request));
  EXPECT_EQ(answers[2].code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answers[2].status.message(), StartsWith("max_message_bytes"));
}

TEST(AttendStream, AFailingCallSaysWhatAUnaryCallSaysAndLeavesOthersAlone) {
  RunningServer server;
  StreamClient stream(server);
  wire::AttendRequest bad = RandomRequest({}, 1);
  bad.mutable_spec()->add_temperatures(0);
  wire::AttendResponse response;
  const grpc::Status unary = server.Attend(bad, &response);
  ASSERT_TRUE(stream.Call(1, RandomRequest({}, 2)));
  ASSERT_TRUE(stream.Call(2, bad));
  ASSERT_TRUE(stream.Write(HeaderOf(3, bad)));
  ASSERT_TRUE(stream.Call(4, RandomRequest({}, 3)));
  auto answers = stream.Take(4);
  ASSERT_EQ(answers.size(), 4);
  EXPECT_EQ(answers[1].code(), grpc::StatusCode::OK);
  EXPECT_EQ(answers[4].code(), grpc::StatusCode::OK);
  for (const uint64_t call : {2, 3}) {
    EXPECT_EQ(answers[call].code(), unary.error_code());
    EXPECT_EQ(answers[call].status.message(), unary.error_message());
    EXPECT_EQ(answers[call].status.SerializeAsString(), unary.error_details());
  }
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(AttendStream, ACallThatCannotBeComputedIsRefusedBeforeItsChunks) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 100000;
  options.max_inflight_bytes = 200000;
  RunningServer server(options);
  StreamClient stream(server);
  wire::AttendRequest kernel = RandomRequest({}, 1);
  kernel.set_kernel("warp");
  ASSERT_TRUE(stream.Write(HeaderOf(1, kernel)));
  wire::AttendRequest large =
      RandomRequest({.q_length = 300, .kv_length = 300, .dim = 64}, 1);
  ASSERT_TRUE(stream.Write(HeaderOf(2, large)));
  // 2^46 bytes: no memory is taken on a header's word.
  wire::AttendRequest huge = RandomRequest({}, 1);
  huge.mutable_q()->set_shape(2, int64_t{1} << 40);
  ASSERT_TRUE(stream.Write(HeaderOf(3, huge)));
  auto answers = stream.Take(3);
  ASSERT_EQ(answers.size(), 3);
  EXPECT_THAT(answers[1].status.message(), StartsWith("kernel"));
  for (const uint64_t call : {2, 3}) {
    EXPECT_EQ(answers[call].code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(answers[call].status.message(),
                HasSubstr("--max-inflight-bytes=200000"));
  }
  // Chunks that were on their way when the call was refused.
  ASSERT_TRUE(stream.Write(ChunksOf(1, kernel, 100)));
  ASSERT_TRUE(stream.Call(4, RandomRequest({}, 2)));
  const auto next = stream.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->call, 4);
  EXPECT_EQ(next->code(), grpc::StatusCode::OK);
}

TEST(AttendStream, ACallMayBeCancelledWhileItsChunksCome) {
  ServerOptions options = TestOptionsWithMetrics();
  RunningServer server(options);
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  ASSERT_TRUE(stream.Write(ChunksOf(1, request, 10).front()));
  ASSERT_TRUE(stream.Write(CancelOf(1)));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), grpc::StatusCode::CANCELLED);
  // Of a call that has ended, and of one that never was: nothing to do.
  ASSERT_TRUE(stream.Write({CancelOf(1), CancelOf(99)}));
  ASSERT_TRUE(stream.Call(2, request));
  EXPECT_EQ(stream.Take(1).begin()->first, 2);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
}

TEST(AttendStream, ChunksThatDoNotComeEndTheirCallAtItsDeadline) {
  RunningServer server;
  StreamClient stream(server);
  wire::AttendStreamRequest header = HeaderOf(1, RandomRequest({}, 1));
  header.set_timeout_ms(50);
  ASSERT_TRUE(stream.Write(header));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(answer->status.message(), HasSubstr("0 of "));
}

TEST(AttendStream, ACallHasATimeoutOfItsOwn) {
  RunningServer server;
  StreamClient stream(server);
  wire::AttendStreamRequest slow = WholeOf(1, SlowRequest());
  slow.set_timeout_ms(50);
  ASSERT_TRUE(stream.Write(slow));
  ASSERT_TRUE(stream.Call(2, RandomRequest({}, 1)));
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  EXPECT_EQ(answers[1].code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(answers[2].code(), grpc::StatusCode::OK);
}

TEST(AttendStream, AClientThatGoesFreesAllThatItHeld) {
  RunningServer server(TestOptionsWithMetrics());
  {
    StreamClient stream(server);
    ASSERT_TRUE(stream.Call(1, SlowRequest()));
    ASSERT_TRUE(stream.Write(HeaderOf(2, RandomRequest({}, 1))));
    ASSERT_TRUE(stream.Call(3, RandomRequest({}, 1)));
    ASSERT_TRUE(stream.Next().has_value());
    EXPECT_GT(server.MetricValue("attn_inflight_bytes"), 0);
    stream.Cancel();
  }
  EXPECT_EQ(
      server.MetricBecoming("attn_requests_total{code=\"CANCELLED\",method="
                            "\"AttendStream\",variant=\"dot_softmax\"}",
                            2),
      2);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  EXPECT_EQ(server.MetricValue("attn_inflight_requests"), 0);
  EXPECT_EQ(server.MetricValue("attn_requests_total{code=\"OK\",method="
                               "\"AttendStream\",variant=\"dot_softmax\"}"),
            1);
}

TEST(AttendStream, AStoppingServerServesWhatIsOpenAndRefusesNewcomers) {
  RunningServer server;
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  // Until the header is in, the gate must not close.
  ASSERT_TRUE(stream.Call(2, request));
  ASSERT_EQ(stream.Take(1).count(2), 1);
  std::thread stop([&server] { server.Stop(); });
  uint64_t call = 2;
  grpc::StatusCode code = grpc::StatusCode::OK;
  while (code == grpc::StatusCode::OK) {
    EXPECT_TRUE(stream.Call(++call, request));
    const auto answer = stream.Next();
    if (!answer.has_value()) break;
    code = answer->code();
  }
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(stream.Write(ChunksOf(1, request, 100)));
  const auto last = stream.Next();
  stop.join();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->call, 1);
  EXPECT_EQ(last->code(), grpc::StatusCode::OK) << last->status.message();
  const grpc::Status ended = stream.Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ended.error_message(), HasSubstr("the server is stopping"));
}

TEST(AttendStream, AReaderWhoDoesNotReadHoldsUpNobodyElse) {
  RunningServer server;
  StreamClient lazy(server);
  wire::AttendRequest request =
      RandomRequest({.q_length = 512, .kv_length = 512}, 1);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  // 2 MiB of weights each, far beyond what a connection buffers.
  for (uint64_t call = 1; call <= 20; ++call) {
    ASSERT_TRUE(lazy.Call(call, request));
  }
  StreamClient busy(server);
  for (uint64_t call = 1; call <= 20; ++call) {
    ASSERT_TRUE(busy.Call(call, RandomRequest({}, 2)));
    ASSERT_TRUE(busy.Next().has_value());
  }
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 3), &response).ok());
  EXPECT_EQ(lazy.Take(20).size(), 20);
}

}  // namespace
}  // namespace attn
