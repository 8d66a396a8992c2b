// What an AttendStream refuses: bounds, faults of the protocol, hostile chunks.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"
#include "tests/integration/server/stream_client.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AttendStreamLimits, TheNextCallIsReadWhenOneIsAnswered) {
  ServerOptions options = TestOptions();
  options.max_stream_calls = 2;
  RunningServer server(options);
  StreamClient stream(server);
  for (const uint64_t call : {1, 2}) {
    wire::AttendStreamRequest slow = WholeOf(call, SlowRequest());
    slow.set_timeout_ms(300);
    ASSERT_TRUE(stream.Write(slow));
  }
  ASSERT_TRUE(stream.Call(3, RandomRequest({}, 1)));
  std::vector<uint64_t> order;
  for (int i = 0; i < 3; ++i) {
    const auto answer = stream.Next();
    ASSERT_TRUE(answer.has_value());
    order.push_back(answer->call);
    EXPECT_EQ(answer->code(), answer->call == 3
                                  ? grpc::StatusCode::OK
                                  : grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_NE(order.front(), 3);
}

// Otherwise the calls that wait for chunks would wait for ever.
TEST(AttendStreamLimits, ChunksAreReadThoughAsManyCallsAreOpenAsMayBe) {
  ServerOptions options = TestOptions();
  options.max_stream_calls = 1;
  RunningServer server(options);
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  ASSERT_TRUE(stream.Call(2, request));
  const auto refused = stream.Next();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->call, 2);
  EXPECT_EQ(refused->code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused->status.message(), HasSubstr("--max-stream-calls=1"));
  EXPECT_THAT(refused->status.SerializeAsString(),
              HasSubstr("google.rpc.RetryInfo"));
  ASSERT_TRUE(stream.Write(ChunksOf(1, request, 50)));
  const auto served = stream.Next();
  ASSERT_TRUE(served.has_value());
  EXPECT_EQ(served->call, 1);
  EXPECT_EQ(served->code(), grpc::StatusCode::OK);
}

TEST(AttendStreamLimits, AMessageThatIsTooLongIsToldTheFlag) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 10000;
  RunningServer server(options);
  StreamClient stream(server);
  const wire::AttendRequest request =
      RandomRequest({.kv_length = 200, .dim = 64}, 4);
  ASSERT_TRUE(stream.Call(1, request));
  ASSERT_TRUE(stream.Write(HeaderOf(2, request)));
  ASSERT_TRUE(
      stream.Write(ChunkOf(2, wire::TENSOR_SLOT_K, 0, request.k().data())));
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  for (const uint64_t call : {1, 2}) {
    EXPECT_EQ(answers[call].code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(answers[call].status.message(),
                HasSubstr("--max-message-bytes=10000"));
  }
}

struct StreamFault {
  const char* name;
  // How the stream's error begins.
  const char* field;
  std::function<void(wire::AttendStreamRequest&)> spoil;
};

TEST(AttendStreamLimits, AMessageThatIsAboutNoCallEndsTheStream) {
  const wire::AttendRequest request = RandomRequest({}, 1);
  const std::vector<StreamFault> faults = {
      {"a number in use", "call", [](auto& m) { m.set_call(5); }},
      {"a number below", "call", [](auto& m) { m.set_call(4); }},
      {"no number", "call", [](auto& m) { m.clear_call(); }},
      {"no part", "part", [](auto& m) { m.clear_part(); }}};
  for (const StreamFault& fault : faults) {
    SCOPED_TRACE(fault.name);
    RunningServer server;
    StreamClient stream(server);
    ASSERT_TRUE(stream.Call(5, request));
    wire::AttendStreamRequest message = WholeOf(6, request);
    fault.spoil(message);
    ASSERT_TRUE(stream.Write(message));
    // What was open is answered first.
    const auto answer = stream.Next();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->call, 5);
    EXPECT_EQ(answer->code(), grpc::StatusCode::OK);
    const grpc::Status ended = stream.Finish();
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(ended.error_message(), StartsWith(fault.field));
  }
}

TEST(AttendStreamLimits, AChunkOfACallThatWasNeverOpenedIsAnswered) {
  RunningServer server;
  StreamClient stream(server);
  ASSERT_TRUE(stream.Write(ChunkOf(3, wire::TENSOR_SLOT_Q, 0, "12345678")));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->call, 3);
  EXPECT_EQ(answer->code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer->status.message(), StartsWith("call"));
  // The number is used up: no call has two answers.
  ASSERT_TRUE(stream.Write(ChunkOf(3, wire::TENSOR_SLOT_Q, 0, "12345678")));
  ASSERT_TRUE(stream.Call(4, RandomRequest({}, 1)));
  const auto next = stream.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->call, 4);
  EXPECT_EQ(next->code(), grpc::StatusCode::OK);
  ASSERT_TRUE(stream.Call(3, RandomRequest({}, 1)));
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(AttendStreamLimits, NegativeLimitsOfACallAreRefused) {
  RunningServer server;
  StreamClient stream(server);
  wire::AttendStreamRequest message = WholeOf(1, RandomRequest({}, 1));
  message.set_timeout_ms(-1);
  ASSERT_TRUE(stream.Write(message));
  message.set_call(2);
  message.set_timeout_ms(0);
  message.set_max_message_bytes(-1);
  ASSERT_TRUE(stream.Write(message));
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  EXPECT_THAT(answers[1].status.message(), StartsWith("timeout_ms"));
  EXPECT_THAT(answers[2].status.message(), StartsWith("max_message_bytes"));
}

TEST(AttendStreamLimits, ChunksThatAreMissingAtTheEndAreNamed) {
  RunningServer server;
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  ASSERT_TRUE(
      stream.Write(ChunkOf(1, wire::TENSOR_SLOT_Q, 0, request.q().data())));
  stream.WritesDone();
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(answer->status.message(),
              HasSubstr("k.data: got 0 bytes in chunks"));
  EXPECT_TRUE(stream.Finish().ok());
}

struct HostileChunk {
  const char* name;
  const char* field;
  std::function<void(wire::TensorChunk&)> spoil;
};

// Each is about the chunk after 8 bytes of q.
const std::vector<HostileChunk>& HostileChunks() {
  using Chunk = wire::TensorChunk;
  static const std::vector<HostileChunk> kChunks = {
      {"a gap", "chunk.offset", [](Chunk& c) { c.set_offset(9); }},
      {"an overlap", "chunk.offset", [](Chunk& c) { c.set_offset(4); }},
      {"again from the start", "chunk.offset",
       [](Chunk& c) { c.set_offset(0); }},
      {"a negative offset", "chunk.offset", [](Chunk& c) { c.set_offset(-8); }},
      {"an offset that overflows", "chunk.offset",
       [](Chunk& c) { c.set_offset(std::numeric_limits<int64_t>::max()); }},
      {"too many bytes", "chunk.data",
       [](Chunk& c) { c.set_data(std::string(1 << 20, 'x')); }},
      {"no bytes", "chunk.data", [](Chunk& c) { c.clear_data(); }},
      {"no tensor", "chunk.tensor", [](Chunk& c) { c.clear_tensor(); }},
      {"an unknown tensor", "chunk.tensor",
       [](Chunk& c) { c.set_tensor(static_cast<wire::TensorSlot>(77)); }},
      {"a tensor that the header lacks", "chunk.tensor",
       [](Chunk& c) { c.set_tensor(wire::TENSOR_SLOT_QKV); }},
      {"a tensor that has its data", "chunk.tensor",
       [](Chunk& c) { c.set_tensor(wire::TENSOR_SLOT_V); }},
      {"an input that is not there", "chunk.tensor",
       [](Chunk& c) { c.set_tensor(wire::TENSOR_SLOT_INPUT); }},
      {"an index of what is no list", "chunk.tensor",
       [](Chunk& c) { c.set_index(1); }},
  };
  return kChunks;
}

TEST(AttendStreamLimits, EachHostileChunkFailsItsCallByFieldAndNoOther) {
  RunningServer server;
  StreamClient stream(server);
  const wire::AttendRequest request = RandomRequest({}, 1);
  const std::string& q = request.q().data();
  uint64_t call = 0;
  for (const HostileChunk& hostile : HostileChunks()) {
    SCOPED_TRACE(hostile.name);
    ++call;
    wire::AttendStreamRequest header = HeaderOf(call, request);
    *header.mutable_header()->mutable_v() = request.v();
    ASSERT_TRUE(stream.Write(header));
    ASSERT_TRUE(
        stream.Write(ChunkOf(call, wire::TENSOR_SLOT_Q, 0, q.substr(0, 8))));
    wire::AttendStreamRequest chunk =
        ChunkOf(call, wire::TENSOR_SLOT_Q, 8, q.substr(8));
    hostile.spoil(*chunk.mutable_chunk());
    ASSERT_TRUE(stream.Write(chunk));
    const auto answer = stream.Next();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->call, call);
    EXPECT_EQ(answer->code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(answer->status.message(), StartsWith(hostile.field));
    EXPECT_THAT(answer->status.SerializeAsString(),
                HasSubstr("google.rpc.BadRequest"));
  }
  ASSERT_TRUE(stream.Call(++call, request));
  EXPECT_EQ(stream.Take(1)[call].code(), grpc::StatusCode::OK);
}

TEST(AttendStreamLimits, AChunkBeyondAllBytesFailsARunningCall) {
  RunningServer server(TestOptionsWithMetrics());
  StreamClient stream(server);
  ASSERT_TRUE(stream.Call(1, SlowRequest()));
  ASSERT_TRUE(stream.Write(ChunkOf(1, wire::TENSOR_SLOT_Q, 0, "1234")));
  const auto answer = stream.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer->status.message(), StartsWith("chunk: "));
  // Counted as what the client was told.
  EXPECT_EQ(server.MetricReaching(
                "attn_requests_total{code=\"INVALID_ARGUMENT\",method="
                "\"AttendStream\",variant=\"dot_softmax\"}",
                1),
            1);
}

// Otherwise it would keep its place and its memory for ever.
TEST(AttendStreamLimits, AClientThatTakesNothingLosesItsStream) {
  ServerOptions options = TestOptionsWithMetrics();
  options.stream_send_grace = absl::Milliseconds(300);
  RunningServer server(options);
  StreamClient lazy(server);
  wire::AttendRequest request =
      RandomRequest({.q_length = 512, .kv_length = 512}, 1);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  // 2 MiB of weights each, far beyond what a connection buffers.
  uint64_t call = 0;
  while (call < 20 && lazy.Call(call + 1, request)) ++call;
  EXPECT_GT(call, 0);
  EXPECT_GE(server.MetricReaching(
                "attn_requests_total{code=\"DEADLINE_EXCEEDED\",method="
                "\"AttendStream\",variant=\"dot_softmax\"}",
                1),
            1);
  const absl::Time patience = absl::Now() + absl::Minutes(1);
  while (server.MetricValue("attn_inflight_bytes") > 0 &&
         absl::Now() < patience) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_EQ(server.MetricValue("attn_inflight_bytes"), 0);
  EXPECT_EQ(server.MetricValue("attn_inflight_requests"), 0);
  EXPECT_EQ(lazy.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(AttendStreamLimits, AMaskInChunksMayHoldNoOtherByteThan0And1) {
  RunningServer server;
  StreamClient stream(server);
  wire::AttendRequest request = RandomRequest({}, 1);
  wire::Tensor& mask = *request.add_inputs();
  mask.set_dtype(wire::DATA_TYPE_BOOL);
  mask.add_shape(5);
  mask.add_shape(7);
  mask.set_data(std::string(35, '\1'));
  request.mutable_spec()
      ->add_masks()
      ->mutable_dense()
      ->mutable_tensor()
      ->set_input(0);
  ASSERT_TRUE(stream.Write(HeaderOf(1, request)));
  ASSERT_TRUE(stream.Write(ChunksOf(1, request, 64)));
  mask.mutable_data()->back() = '\2';
  ASSERT_TRUE(stream.Write(HeaderOf(2, request)));
  ASSERT_TRUE(stream.Write(ChunksOf(2, request, 64)));
  auto answers = stream.Take(2);
  ASSERT_EQ(answers.size(), 2);
  EXPECT_EQ(answers[1].code(), grpc::StatusCode::OK)
      << answers[1].status.message();
  EXPECT_THAT(answers[2].status.message(), StartsWith("inputs[0].data"));
}

}  // namespace
}  // namespace attn
