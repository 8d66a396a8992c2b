// The Open Inference Protocol over the wire, by the stub of its schema: as a
// client of KServe or Triton calls.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

namespace oip = ::inference;

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kInference[] = "inference.GRPCInferenceService";
constexpr char kModelInferPath[] = "/inference.GRPCInferenceService/ModelInfer";

// The tensors of `request`, and those of its inputs under these names.
oip::ModelInferRequest InferRequest(
    const std::string& model, const wire::AttendRequest& request,
    const std::vector<std::string>& names = {}) {
  oip::ModelInferRequest infer;
  infer.set_model_name(model);
  const auto add = [&infer](const std::string& name,
                            const wire::Tensor& tensor) {
    auto& input = *infer.add_inputs();
    input.set_name(name);
    input.set_datatype(tensor.dtype() == wire::DATA_TYPE_BOOL ? "BOOL"
                                                              : "FP32");
    *input.mutable_shape() = tensor.shape();
    infer.add_raw_input_contents(tensor.data());
  };
  add("q", request.q());
  add("k", request.k());
  add("v", request.v());
  for (size_t i = 0; i < names.size(); ++i) {
    add(names[i], request.inputs(static_cast<int>(i)));
  }
  return infer;
}

oip::InferParameter& Parameter(oip::ModelInferRequest& request,
                               const std::string& name) {
  return (*request.mutable_parameters())[name];
}

// Calls by the generated stub.
class InferenceClient {
 public:
  explicit InferenceClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(oip::GRPCInferenceService::NewStub(channel)) {}

  grpc::Status Infer(const oip::ModelInferRequest& request,
                     oip::ModelInferResponse* response) {
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, response);
  }
  bool Live() {
    grpc::ClientContext context;
    oip::ServerLiveResponse response;
    return stub_->ServerLive(&context, {}, &response).ok() && response.live();
  }
  bool Ready() {
    grpc::ClientContext context;
    oip::ServerReadyResponse response;
    return stub_->ServerReady(&context, {}, &response).ok() && response.ready();
  }
  bool ModelReady(const std::string& model) {
    grpc::ClientContext context;
    oip::ModelReadyRequest request;
    request.set_name(model);
    oip::ModelReadyResponse response;
    return stub_->ModelReady(&context, request, &response).ok() &&
           response.ready();
  }
  oip::GRPCInferenceService::Stub& stub() { return *stub_; }

 private:
  const std::unique_ptr<oip::GRPCInferenceService::Stub> stub_;
};

class OpenInference : public ::testing::Test {
 protected:
  // The bits of ModelInfer are those of Attend.
  void ExpectSameBits(const oip::ModelInferRequest& infer,
                      const wire::AttendRequest& attend) {
    wire::AttendResponse want;
    const grpc::Status expected = server_.Attend(attend, &want);
    ASSERT_TRUE(expected.ok()) << expected.error_message();
    oip::ModelInferResponse got;
    const grpc::Status status = client_.Infer(infer, &got);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(got.raw_output_contents_size(), 1);
    EXPECT_EQ(got.outputs(0).name(), "output");
    EXPECT_EQ(got.raw_output_contents(0), want.output().data());
    EXPECT_EQ(std::vector<int64_t>(got.outputs(0).shape().begin(),
                                   got.outputs(0).shape().end()),
              std::vector<int64_t>(want.output().shape().begin(),
                                   want.output().shape().end()));
  }

  RunningServer server_{TestOptionsWithMetrics()};
  InferenceClient client_{server_.Connect()};
};

TEST_F(OpenInference, AttentionTakesItsSpecAsParameters) {
  wire::AttendRequest attend = RandomRequest({.q_heads = 4}, 3);
  oip::ModelInferRequest infer = InferRequest("attention", attend);
  ExpectSameBits(infer, attend);

  auto& causal = *attend.mutable_spec()->add_masks()->mutable_causal();
  causal.set_alignment(wire::ALIGNMENT_BOTTOM_RIGHT);
  attend.mutable_spec()->mutable_score()->mutable_dot()->set_scale(0.25);
  attend.mutable_spec()->set_softcap(2);
  Parameter(infer, "causal").set_bool_param(true);
  Parameter(infer, "alignment").set_string_param("ALIGNMENT_BOTTOM_RIGHT");
  Parameter(infer, "scale").set_double_param(0.25);
  Parameter(infer, "softcap").set_string_param("2");
  ExpectSameBits(infer, attend);

  infer.clear_parameters();
  Parameter(infer, "spec")
      .set_string_param(
          R"({"masks":[{"causal":{"alignment":"ALIGNMENT_BOTTOM_RIGHT"}}],
          "score":{"dot":{"scale":0.25}},"softcap":2})");
  ExpectSameBits(infer, attend);

  attend.clear_spec();
  attend.add_kv_lengths(4);
  attend.mutable_spec()->add_temperatures(3);
  auto& window = *attend.mutable_spec()->add_masks()->mutable_window();
  window.set_left(2);
  window.set_alignment(wire::ALIGNMENT_TOP_LEFT);
  infer.clear_parameters();
  Parameter(infer, "kv_lengths").set_string_param("[4]");
  Parameter(infer, "temperature").set_int64_param(3);
  Parameter(infer, "window_left").set_int64_param(2);
  Parameter(infer, "alignment").set_string_param("ALIGNMENT_TOP_LEFT");
  ExpectSameBits(infer, attend);
}

TEST_F(OpenInference, VariantsAreModels) {
  wire::AttendRequest attend = RandomRequest({}, 5);
  attend.mutable_spec()->mutable_normalizer()->mutable_sparsemax();
  ExpectSameBits(InferRequest("normalizer_sparsemax", attend), attend);

  attend = RandomRequest({.q_length = 6, .kv_length = 6}, 6);
  attend.mutable_spec()->add_biases()->mutable_alibi();
  attend.mutable_spec()->add_masks()->mutable_causal();
  oip::ModelInferRequest infer = InferRequest("bias_alibi", attend);
  Parameter(infer, "causal").set_bool_param(true);
  ExpectSameBits(infer, attend);

  attend = RandomRequest({}, 7);
  *attend.add_inputs() = FloatTensor({2, 5, 7}, RandomFloats(70, 8));
  attend.mutable_spec()
      ->add_biases()
      ->mutable_dense()
      ->mutable_tensor()
      ->set_input(0);
  ExpectSameBits(InferRequest("bias_dense", attend, {"bias"}), attend);

  attend = RandomRequest({}, 9);
  *attend.add_inputs() = FloatTensor({2}, {0.5, -1});
  attend.mutable_spec()
      ->mutable_normalizer()
      ->mutable_softmax()
      ->mutable_sink()
      ->set_input(0);
  ExpectSameBits(InferRequest("normalizer_softmax", attend, {"sink"}), attend);
}

TEST_F(OpenInference, TheServerAndItsModelsDescribeThemselves) {
  EXPECT_TRUE(client_.Live());
  EXPECT_TRUE(client_.Ready());
  EXPECT_TRUE(client_.ModelReady("bias_alibi"));
  EXPECT_FALSE(client_.ModelReady("resnet50"));
  EXPECT_EQ(HealthOf(server_.Connect(), kInference), "SERVING");

  grpc::ClientContext server_context;
  oip::ServerMetadataResponse server;
  ASSERT_TRUE(client_.stub().ServerMetadata(&server_context, {}, &server).ok());
  EXPECT_EQ(server.name(), "attn");
  EXPECT_FALSE(server.version().empty());

  grpc::ClientContext index_context;
  oip::RepositoryIndexResponse index;
  ASSERT_TRUE(client_.stub().RepositoryIndex(&index_context, {}, &index).ok());
  EXPECT_GT(index.models_size(), 40);
  for (const auto& model : index.models()) {
    EXPECT_EQ(model.state(), "READY");
    grpc::ClientContext context;
    oip::ModelMetadataRequest request;
    request.set_name(model.name());
    oip::ModelMetadataResponse metadata;
    ASSERT_TRUE(
        client_.stub().ModelMetadata(&context, request, &metadata).ok());
    EXPECT_EQ(metadata.name(), model.name());
    EXPECT_GE(metadata.inputs_size(), 3);
  }
  grpc::ClientContext unknown_context;
  oip::ModelMetadataRequest unknown;
  unknown.set_name("resnet50");
  oip::ModelMetadataResponse metadata;
  EXPECT_EQ(client_.stub()
                .ModelMetadata(&unknown_context, unknown, &metadata)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(OpenInference, ReflectionListsTheService) {
  std::string services;
  ASSERT_TRUE(ListServices(server_.Connect(), &services).ok());
  EXPECT_THAT(services, HasSubstr(kInference));
}

TEST_F(OpenInference, CallsAreCountedAsModelInferAndProbesAreNot) {
  oip::ModelInferResponse response;
  ASSERT_TRUE(
      client_
          .Infer(InferRequest("mask_prefix", RandomRequest({}, 1)), &response)
          .error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(
      client_.Infer(InferRequest("attention", RandomRequest({}, 1)), &response)
          .ok());
  EXPECT_TRUE(client_.Live() && client_.Ready());
  EXPECT_EQ(server_.MetricReaching("attn_requests_total{code=\"OK\","
                                   "method=\"ModelInfer\","
                                   "variant=\"dot_softmax\"}",
                                   1),
            1);
  EXPECT_THAT(server_.Metrics(),
              ::testing::Not(HasSubstr("method=\"ServerLive\"")));
}

TEST_F(OpenInference, ACallIsCancelledWithItsClient) {
  oip::ModelInferRequest request = InferRequest("attention", SlowRequest());
  Parameter(request, "kernel").set_string_param("reference");
  PendingCall call(server_.Connect(), kModelInferPath, ToRequest(request));
  call.Start();
  EXPECT_EQ(server_.MetricReaching("attn_batch_requests_count", 1), 1);
  call.Cancel();
  EXPECT_EQ(call.Wait().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server_.MetricReaching("attn_requests_rejected_total"
                                   "{reason=\"cancelled\"}",
                                   1),
            1);
}

TEST_F(OpenInference, ATimeoutOfTheRequestHolds) {
  oip::ModelInferRequest request = InferRequest("attention", SlowRequest());
  Parameter(request, "kernel").set_string_param("reference");
  Parameter(request, "timeout").set_int64_param(20000);
  oip::ModelInferResponse response;
  EXPECT_EQ(client_.Infer(request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(OpenInference, ErrorsNameTheFieldAsThoseOfAttendDo) {
  oip::ModelInferRequest request =
      InferRequest("attention", RandomRequest({}, 1));
  request.mutable_inputs(1)->set_shape(3, 9);
  oip::ModelInferResponse response;
  const grpc::Status status = client_.Infer(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("k.data: got "));
  // google.rpc.BadRequest, as everywhere.
  EXPECT_THAT(status.error_details(),
              AllOf(HasSubstr("google.rpc.BadRequest"), HasSubstr("k.data")));
}

TEST(OpenInferenceLifecycle, ReadinessIsWhatTheHealthServiceSays) {
  ServerOptions options = TestOptions();
  options.drain_delay = absl::InfiniteDuration();
  bool warming = true;
  RunningServer server(options, [&](const std::string& line) {
    constexpr char kBefore[] = "listening on ";
    const size_t begin = line.find(kBefore);
    const size_t end = line.find(": NOT_SERVING until warm");
    if (end == std::string::npos) return;
    const size_t address = begin + sizeof(kBefore) - 1;
    InferenceClient client(
        RunningServer::Connect(line.substr(address, end - address)));
    warming =
        client.Live() && !client.Ready() && !client.ModelReady("attention");
  });
  EXPECT_TRUE(warming);
  InferenceClient client(server.Connect());
  EXPECT_TRUE(client.Ready());
  std::thread stop([&server] { server.Stop(); });
  EXPECT_TRUE(Becomes([&] { return !client.Ready(); }));
  EXPECT_TRUE(client.Live());
  EXPECT_FALSE(client.ModelReady("attention"));
  EXPECT_EQ(HealthOf(server.Connect(), kInference), "NOT_SERVING");
  oip::ModelInferResponse response;
  EXPECT_TRUE(
      client.Infer(InferRequest("attention", RandomRequest({}, 1)), &response)
          .ok());
  server.server().Hurry();
  stop.join();
}

TEST(OpenInferenceLifecycle, AServerWithoutItServesAllElse) {
  ServerOptions options = TestOptions();
  options.open_inference = false;
  RunningServer server(options);
  InferenceClient client(server.Connect());
  oip::ModelInferResponse response;
  EXPECT_EQ(
      client.Infer(InferRequest("attention", RandomRequest({}, 1)), &response)
          .error_code(),
      grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_NE(HealthOf(server.Connect(), kInference), "SERVING");
  wire::AttendResponse attended;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 1), &attended).ok());
}

}  // namespace
}  // namespace attn
