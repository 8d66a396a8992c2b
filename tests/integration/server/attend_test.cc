// Attend, Plan and GetServerInfo over the wire.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"
#include "tests/testing/oracle.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<double> Doubles(const wire::Tensor& tensor) {
  const std::vector<float> values = Floats(tensor);
  return {values.begin(), values.end()};
}

oracle::Case CaseOf(const wire::AttendRequest& request) {
  oracle::Case result;
  result.batch = request.q().shape(0);
  result.q_heads = request.q().shape(1);
  result.q_length = request.q().shape(2);
  result.qk_dim = request.q().shape(3);
  result.kv_heads = request.k().shape(1);
  result.kv_length = request.k().shape(2);
  result.v_dim = request.v().shape(3);
  result.q = Doubles(request.q());
  result.k = Doubles(request.k());
  result.v = Doubles(request.v());
  return result;
}

void ExpectNear(const wire::Tensor& tensor,
                const std::vector<double>& expected) {
  // Rounding of f32 over rows of a few terms.
  constexpr double kTolerance = 2e-6;
  const std::vector<float> got = Floats(tensor);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], kTolerance) << "at " << i;
  }
}

TEST(Attend, GivesEveryOutputThatTheFormulaGives) {
  RunningServer server;
  wire::AttendRequest request = RandomRequest({.q_heads = 4}, 11);
  wire::CausalMask* causal =
      request.mutable_spec()->add_masks()->mutable_causal();
  causal->set_alignment(wire::ALIGNMENT_BOTTOM_RIGHT);
  for (int output = wire::OUTPUT_OUTPUT; output <= wire::OUTPUT_HEAD_STATISTICS;
       ++output) {
    request.add_outputs(static_cast<wire::Output>(output));
  }
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();

  oracle::Case formula = CaseOf(request);
  formula.bands.push_back(
      {.left = std::nullopt, .right = 0, .bottom_right = true});
  const oracle::Result expected = oracle::Attend(formula);
  ExpectNear(response.output(), expected.output);
  ExpectNear(response.lse(), expected.lse);
  ExpectNear(response.logits(), expected.logits);
  ExpectNear(response.weights(), expected.weights);
  ExpectNear(response.row_statistics().entropy(), expected.entropy);
  ExpectNear(response.row_statistics().peak_weight(), expected.peak_weight);
  EXPECT_EQ(response.head_statistics_size(), 4);
  EXPECT_DOUBLE_EQ(response.report().effective_scale(), 1 / std::sqrt(8.0));
  EXPECT_THAT(response.report().pipeline(), HasSubstr("causal"));
  EXPECT_FALSE(response.report().request_id().empty());
  EXPECT_GT(response.report().timings().compute_ns(), 0);
}

TEST(Attend, EchoesTheRequestIdAndTheLayout) {
  RunningServer server;
  wire::AttendRequest request = RandomRequest({}, 5);
  request.set_request_id("step 17");
  for (wire::Tensor* tensor :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensor->set_layout(wire::TENSOR_LAYOUT_BSHD);
    tensor->mutable_shape()->SwapElements(1, 2);
  }
  wire::AttendResponse response;
  ASSERT_TRUE(server.Attend(request, &response).ok());
  EXPECT_EQ(response.report().request_id(), "step 17");
  EXPECT_EQ(response.output().layout(), wire::TENSOR_LAYOUT_BSHD);
  EXPECT_EQ(response.output().shape(1), 5);
  EXPECT_EQ(response.output().shape(2), 2);
}

TEST(Attend, GivesTheSameBitsAloneAndInCompany) {
  RunningServer server;
  constexpr int kCallers = 8;
  const wire::AttendRequest request = RandomRequest(
      {.q_heads = 4, .kv_heads = 2, .q_length = 33, .kv_length = 65}, 3);
  wire::AttendResponse alone;
  ASSERT_TRUE(server.Attend(request, &alone).ok());
  std::vector<std::string> outputs(kCallers);
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&server, &request, &outputs, caller] {
      wire::AttendResponse other;
      server.Attend(RandomRequest({.q_length = 3 + 20 * caller}, 90), &other);
      wire::AttendResponse response;
      server.Attend(request, &response);
      outputs[static_cast<size_t>(caller)] = response.output().data();
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::string& output : outputs) {
    EXPECT_EQ(output, alone.output().data());
  }
}

struct BadRequest {
  const char* name;
  // How the error's text begins.
  const char* field;
  std::function<void(wire::AttendRequest&)> spoil;
};

const std::vector<BadRequest>& BadRequests() {
  using Request = wire::AttendRequest;
  static const std::vector<BadRequest> kRequests = {
      {"no q", "q", [](Request& r) { r.clear_q(); }},
      {"rank", "q.shape", [](Request& r) { r.mutable_q()->add_shape(1); }},
      {"negative extent", "k.shape",
       [](Request& r) { r.mutable_k()->set_shape(2, -1); }},
      {"overflow", "v.shape",
       [](Request& r) { r.mutable_v()->set_shape(2, int64_t{1} << 62); }},
      {"byte length", "q.data",
       [](Request& r) { r.mutable_q()->mutable_data()->pop_back(); }},
      {"unknown dtype", "q.dtype",
       [](Request& r) {
         r.mutable_q()->set_dtype(static_cast<wire::DataType>(99));
       }},
      {"unknown output", "outputs",
       [](Request& r) { r.add_outputs(static_cast<wire::Output>(99)); }},
      {"heads", "k.shape",
       [](Request& r) {
         *r.mutable_k() = FloatTensor({1, 3, 7, 8}, RandomFloats(168, 1));
         *r.mutable_v() = FloatTensor({1, 3, 7, 8}, RandomFloats(168, 2));
       }},
      {"NaN scale", "spec.score.dot.scale",
       [](Request& r) {
         r.mutable_spec()->mutable_score()->mutable_dot()->set_scale(
             std::numeric_limits<double>::quiet_NaN());
       }},
      {"temperature", "spec.temperatures",
       [](Request& r) { r.mutable_spec()->add_temperatures(0); }},
      {"unset bias", "spec.biases[0]",
       [](Request& r) { r.mutable_spec()->add_biases(); }},
      {"length", "kv_lengths", [](Request& r) { r.add_kv_lengths(8); }},
      {"kernel", "kernel", [](Request& r) { r.set_kernel("warp"); }},
      {"request id", "request_id",
       [](Request& r) { r.set_request_id(std::string(129, 'x')); }}};
  return kRequests;
}

TEST(Attend, RefusesEachBadRequestByFieldAndServesOthers) {
  RunningServer server;
  const auto stub =
      wire::AttentionService::NewStub(RunningServer::Connect(server.address()));
  for (const BadRequest& bad : BadRequests()) {
    SCOPED_TRACE(bad.name);
    wire::AttendRequest request = RandomRequest({}, 1);
    bad.spoil(request);
    wire::AttendResponse response;
    const grpc::Status status = server.Attend(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), StartsWith(bad.field));
    // google.rpc.BadRequest names it too.
    EXPECT_THAT(status.error_details(), HasSubstr(bad.field));
    grpc::ClientContext context;
    const grpc::Status good =
        stub->Attend(&context, RandomRequest({}, 2), &response);
    EXPECT_TRUE(good.ok()) << good.error_message();
  }
}

TEST(Attend, SurvivesShapesThatAreHugeButEmpty) {
  RunningServer server;
  constexpr int64_t kHuge = int64_t{1} << 40;
  wire::AttendRequest request;
  *request.mutable_q() = FloatTensor({1, 1, kHuge, 0}, {});
  *request.mutable_k() = FloatTensor({1, 1, kHuge, 0}, {});
  *request.mutable_v() = FloatTensor({1, 1, kHuge, 0}, {});
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  request.add_outputs(wire::OUTPUT_ROW_STATISTICS);
  wire::AttendResponse response;
  EXPECT_FALSE(server.Attend(request, &response).ok());
  request.clear_outputs();
  EXPECT_FALSE(server.Attend(request, &response).ok());
  EXPECT_TRUE(server.Attend(RandomRequest({}, 2), &response).ok());
}

TEST(Plan, NamesTheKernelAndWhatTheCallWouldCost) {
  RunningServer server;
  wire::PlanRequest request;
  for (wire::TensorInfo* tensor :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensor->set_dtype(wire::DATA_TYPE_F32);
    for (const int64_t extent : {1, 2, 16, 8}) tensor->add_shape(extent);
  }
  grpc::ClientContext context;
  wire::PlanResponse response;
  ASSERT_TRUE(server.stub().Plan(&context, request, &response).ok());
  EXPECT_FALSE(response.kernel().empty());
  EXPECT_EQ(response.verdicts(response.verdicts_size() - 1).kernel(),
            "reference");
  // Two products of 16 x 16 x 8 in two heads.
  EXPECT_GE(response.flops(), 2 * 2 * 2 * 16 * 16 * 8);
  EXPECT_DOUBLE_EQ(response.effective_scale(), 1 / std::sqrt(8.0));
}

TEST(Plan, RefusesBytesThatAreNoMessage) {
  RunningServer server;
  wire::PlanRequest request;
  grpc::ClientContext context;
  wire::PlanResponse response;
  const grpc::Status status = server.stub().Plan(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Its memory was sent as it came: nobody asked the engine for it.
TEST(Attend, OutputsOfTheHeadsAreTheOutputWithoutAProjection) {
  RunningServer server;
  wire::AttendRequest request = RandomRequest({}, 3);
  request.add_outputs(wire::OUTPUT_OUTPUT);
  request.add_outputs(wire::OUTPUT_HEAD_OUTPUT);
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.head_output().data(), response.output().data());
}

TEST(GetServerInfo, TellsLimitsThreadsAndMembers) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 12345678;
  RunningServer server(options);
  grpc::ClientContext context;
  wire::GetServerInfoResponse response;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &response).ok());
  EXPECT_EQ(response.limits().max_message_bytes(), 12345678);
  EXPECT_EQ(response.compute_threads(), 2);
  EXPECT_EQ(response.version(), ATTN_VERSION);
  EXPECT_EQ(response.kernels(response.kernels_size() - 1), "reference");
  // transform, score, bias, mask, sparsifier, normalizer
  EXPECT_EQ(response.stages_size(), 6);
}

TEST(Attend, IsServedOverAUnixSocket) {
  const std::string address =
      "unix:" + ::testing::TempDir() + "/attn_server_test.sock";
  ServerOptions options = TestOptions();
  options.grpc_addresses.push_back(address);
  RunningServer server(options);
  const auto stub =
      wire::AttentionService::NewStub(RunningServer::Connect(address));
  grpc::ClientContext context;
  wire::AttendResponse response;
  EXPECT_TRUE(stub->Attend(&context, RandomRequest({}, 2), &response).ok());
}

}  // namespace
}  // namespace attn
