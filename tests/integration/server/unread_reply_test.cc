// Clients that ask, answer pings, and do not take what they asked for.
#include <chrono>
#include <string>

#include "attention/v1/layer.grpc.pb.h"
#include "engine/runtime/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// Far beyond what a connection buffers.
constexpr int64_t kLongAnswer = int64_t{8} << 20;

// Little to compute, and kLongAnswer bytes of weights.
wire::AttendRequest WeightsRequest() {
  wire::AttendRequest request = RandomRequest({.q_heads = 1,
                                               .kv_heads = 1,
                                               .q_length = 1024,
                                               .kv_length = 2048,
                                               .dim = 2},
                                              1);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  return request;
}

// What the client of a call that was cut finds when it looks at last.
void ExpectCut(OpenCall& call) {
  std::string answer;
  EXPECT_FALSE(call.Read(&answer));
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("did not take the answer"));
}

// Otherwise a few of them would keep everybody out, for ever.
TEST(UnreadReply, AnAnswerThatIsNotTakenKeepsItsPlaceForAWhileOnly) {
  ServerOptions options = TestOptionsWithMetrics();
  // Of the whole call: computing must not be late.
  options.default_timeout = absl::Seconds(5);
  options.stream_send_grace = absl::Milliseconds(300);
  Mutex mutex;
  std::string log;
  RunningServer server(options, [&](const std::string& line) {
    const MutexLock lock(mutex);
    log += line;
  });
  OpenCall one(server.Connect(), kAttendPath);
  OpenCall other(server.Connect(), kAttendPath);
  for (OpenCall* unread : {&one, &other}) {
    ASSERT_TRUE(
        unread->Write(WeightsRequest().SerializeAsString(), /*last=*/true));
  }
  EXPECT_GE(server.MetricReaching("attn_inflight_bytes", 2 * kLongAnswer),
            2 * kLongAnswer);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  EXPECT_EQ(server.MetricReaching(
                "attn_requests_total{code=\"DEADLINE_EXCEEDED\",method="
                "\"Attend\",variant=\"dot_softmax\"}",
                2),
            2);
  EXPECT_TRUE(Becomes([&] {
    const MutexLock lock(mutex);
    return log.find("did not take the answer in time") != std::string::npos;
  }));
  ExpectCut(one);
  ExpectCut(other);
}

// It holds the layer's memory, replaced or not.
TEST(UnreadReply, ALayerThatIsNotTakenIsNotKeptForItsClient) {
  ServerOptions options = TestOptions();
  // Of what names no deadline: the call that is not taken.
  options.default_timeout = absl::Milliseconds(100);
  options.stream_send_grace = absl::Milliseconds(100);
  // Room for one and a half.
  options.max_layer_bytes = kLongAnswer / 2 * 3;
  RunningServer server(options);
  const auto layers = wire::LayerService::NewStub(server.Connect());
  const auto in_two_minutes = [] {
    return std::chrono::system_clock::now() + std::chrono::minutes(2);
  };
  wire::PutLayerRequest layer;
  layer.set_name("mine");
  wire::NamedTensor& tensor = *layer.add_tensors();
  tensor.set_name("bias");
  const int64_t count = kLongAnswer / static_cast<int64_t>(sizeof(float));
  *tensor.mutable_tensor() = FloatTensor({count}, RandomFloats(count, 1));
  const auto put = [&] {
    grpc::ClientContext context;
    context.set_deadline(in_two_minutes());
    wire::PutLayerResponse stored;
    return layers->PutLayer(&context, layer, &stored);
  };
  const grpc::Status first = put();
  ASSERT_TRUE(first.ok()) << first.error_message();

  wire::GetLayerRequest request;
  request.set_name("mine");
  {
    grpc::ClientContext context;
    context.set_deadline(in_two_minutes());
    wire::GetLayerResponse taken;
    const grpc::Status got = layers->GetLayer(&context, request, &taken);
    ASSERT_TRUE(got.ok()) << got.error_message();
    ASSERT_EQ(taken.tensors_size(), 1);
    EXPECT_EQ(taken.tensors(0).tensor().data(), tensor.tensor().data());
  }
  // Nobody holds it when the transport has let that answer go.
  ASSERT_TRUE(Becomes([&] { return put().ok(); }));

  OpenCall unread(server.Connect(), "/attention.v1.LayerService/GetLayer");
  ASSERT_TRUE(unread.Write(request.SerializeAsString(), /*last=*/true));
  ASSERT_TRUE(Becomes([&] {
    return put().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }));
  EXPECT_TRUE(Becomes([&] { return put().ok(); }));
  ExpectCut(unread);
}

// It would hold its session's place, and what the step booked.
TEST(UnreadReply, AStepThatIsNotTakenEndsItsStream) {
  ServerOptions options = TestOptionsWithMetrics();
  options.stream_send_grace = absl::Milliseconds(100);
  RunningServer server(options);
  // A long answer, which has eight seconds more.
  constexpr int64_t kRows = 256;
  constexpr int64_t kHeads = 64;
  constexpr int64_t kWidth = 128;
  const TestShape shape = {.batch = 1,
                           .q_heads = kHeads,
                           .kv_heads = 1,
                           .q_length = kRows,
                           .kv_length = kRows,
                           .dim = kWidth};
  TestSession session(server, OpenFor(shape, CausalSpec()));
  wire::StepStreamRequest request;
  *request.mutable_step() = session.Next();
  SequenceTokens(shape, 1).AddTo(*request.mutable_step(), 0, kRows);
  OpenCall unread(server.Connect(), "/attention.v1.SessionService/StepStream");
  ASSERT_TRUE(unread.Write(request.SerializeAsString(), /*last=*/false));
  constexpr int64_t kAnswer = kRows * kHeads * kWidth * 4;
  static_assert(kAnswer >= kLongAnswer);
  EXPECT_GE(server.MetricReaching("attn_inflight_bytes", kAnswer), kAnswer);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  ExpectCut(unread);
  // The step was made: only its answer was not taken.
  EXPECT_EQ(session.Info().next_step(), 1U);
}

}  // namespace
}  // namespace attn
