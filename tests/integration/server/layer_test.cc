// Layers through a whole server: calls that name tensors of them.
#include <memory>
#include <string>

#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LayersOfAServer : public ::testing::Test {
 protected:
  LayersOfAServer() : layers_(wire::LayerService::NewStub(server_.Connect())) {}

  grpc::Status Put(const std::string& name, const wire::Tensor& tensor) {
    return PutTo(*layers_, name, tensor);
  }
  static grpc::Status PutTo(wire::LayerService::Stub& layers,
                            const std::string& name,
                            const wire::Tensor& tensor) {
    wire::PutLayerRequest request;
    request.set_name(name);
    request.add_tensors()->set_name("bias");
    *request.mutable_tensors(0)->mutable_tensor() = tensor;
    grpc::ClientContext context;
    wire::PutLayerResponse response;
    return layers.PutLayer(&context, request, &response);
  }
  static wire::TensorRef& BiasOf(wire::AttendRequest& request) {
    return *request.mutable_spec()
                ->add_biases()
                ->mutable_dense()
                ->mutable_tensor();
  }
  static void Name(wire::TensorRef& ref, const std::string& layer) {
    ref.mutable_layer()->set_layer(layer);
    ref.mutable_layer()->set_tensor("bias");
  }

  RunningServer server_;
  std::unique_ptr<wire::LayerService::Stub> layers_;
};

TEST_F(LayersOfAServer, ATensorOfALayerIsAsGoodAsOneInTheCall) {
  const wire::Tensor bias = FloatTensor({5, 7}, RandomFloats(35, 3));
  ASSERT_TRUE(Put("mine", bias).ok());
  wire::AttendRequest in_call = RandomRequest({}, 1);
  wire::AttendRequest by_name = in_call;
  BiasOf(in_call).set_input(0);
  *in_call.add_inputs() = bias;
  Name(BiasOf(by_name), "mine");
  wire::AttendResponse expected;
  wire::AttendResponse response;
  ASSERT_TRUE(server_.Attend(in_call, &expected).ok());
  const grpc::Status status = server_.Attend(by_name, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Floats(response.output()), Floats(expected.output()));
}

TEST_F(LayersOfAServer, APlanNeedsTheLayerToo) {
  wire::PlanRequest request;
  for (wire::TensorInfo* info :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    info->set_dtype(wire::DATA_TYPE_F32);
    for (const int64_t extent : {1, 2, 5, 8}) info->add_shape(extent);
  }
  Name(*request.mutable_spec()->add_biases()->mutable_dense()->mutable_tensor(),
       "mine");
  wire::PlanResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status =
        server_.stub().Plan(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("spec.biases[0].dense.tensor.layer: got no layer "
                          "\"mine\""));
  }
  ASSERT_TRUE(Put("mine", FloatTensor({5, 5}, RandomFloats(25, 3))).ok());
  grpc::ClientContext context;
  EXPECT_TRUE(server_.stub().Plan(&context, request, &response).ok());
}

TEST_F(LayersOfAServer, ATensorThatIsNotInTheLayerIsNamed) {
  ASSERT_TRUE(Put("mine", FloatTensor({5, 7}, RandomFloats(35, 3))).ok());
  wire::AttendRequest request = RandomRequest({}, 1);
  wire::TensorRef& ref = BiasOf(request);
  Name(ref, "mine");
  ref.mutable_layer()->set_tensor("other");
  wire::AttendResponse response;
  const grpc::Status status = server_.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("no tensor \"other\" in layer \"mine\""));
}

TEST_F(LayersOfAServer, ATensorThatDoesNotFitIsNamedByLayer) {
  ASSERT_TRUE(Put("mine", FloatTensor({3}, {1, 0.5, 2})).ok());
  wire::AttendRequest request = RandomRequest({}, 1);
  Name(BiasOf(request), "mine");
  wire::AttendResponse response;
  grpc::Status status = server_.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("spec.biases[0].dense.tensor.layer: got tensor "
                        "\"bias\" of layer \"mine\": "));
  // Numbers that do not fit, in the second place that names them.
  request = RandomRequest({.q_heads = 3, .kv_heads = 3}, 1);
  Name(*request.mutable_spec()
            ->add_biases()
            ->mutable_constant()
            ->mutable_values(),
       "mine");
  Name(*request.mutable_spec()
            ->mutable_normalizer()
            ->mutable_entmax()
            ->mutable_alphas(),
       "mine");
  status = server_.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("spec.normalizer.entmax.alphas.layer: got tensor "
                        "\"bias\" of layer \"mine\": 0.5 for head 1"));
}

TEST_F(LayersOfAServer, LayerCallsAreCounted) {
  RunningServer counted(TestOptionsWithMetrics());
  const auto stub = wire::LayerService::NewStub(counted.Connect());
  grpc::ClientContext context;
  wire::ListLayersResponse response;
  ASSERT_TRUE(stub->ListLayers(&context, {}, &response).ok());
  EXPECT_THAT(counted.Metrics(), HasSubstr("method=\"ListLayers\""));
}

// Its memory is the layer's, replaced or not, until it is sent.
TEST_F(LayersOfAServer, ALayerThatFitsOnceAnAnswerIsTakenIsWorthARetry) {
  // Far beyond what a connection buffers.
  constexpr int64_t kCount = int64_t{2} << 20;
  ServerOptions options = TestOptionsWithMetrics();
  options.default_timeout = absl::Minutes(10);
  // Room for one and a half.
  options.max_layer_bytes = kCount * int64_t{sizeof(float)} / 2 * 3;
  RunningServer server(options);
  const auto stub = wire::LayerService::NewStub(server.Connect());
  const wire::Tensor tensor = FloatTensor({kCount}, RandomFloats(kCount, 1));
  ASSERT_TRUE(PutTo(*stub, "mine", tensor).ok());
  wire::GetLayerRequest get;
  get.set_name("mine");
  {
    OpenCall unread(server.Connect(), "/attention.v1.LayerService/GetLayer");
    ASSERT_TRUE(unread.Write(get.SerializeAsString(), /*last=*/true));
    ASSERT_EQ(server.MetricReaching("attn_requests_total{code=\"OK\",method="
                                    "\"GetLayer\",variant=\"none\"}",
                                    1),
              1);
    const grpc::Status later = PutTo(*stub, "mine", tensor);
    EXPECT_EQ(later.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(later.error_message(), HasSubstr("--max-layer-bytes="));
    EXPECT_THAT(later.error_details(), HasSubstr("google.rpc.RetryInfo"));
    EXPECT_EQ(server.MetricReaching(
                  "attn_requests_rejected_total{reason=\"memory\"}", 1),
              1);
  }
  EXPECT_TRUE(Becomes([&] { return PutTo(*stub, "mine", tensor).ok(); }));
  // Beside that one it never fits.
  const grpc::Status never = PutTo(*stub, "other", tensor);
  EXPECT_EQ(never.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(never.error_message(), HasSubstr("--max-layer-bytes="));
  EXPECT_THAT(never.error_details(), Not(HasSubstr("google.rpc.RetryInfo")));
  EXPECT_EQ(server.MetricReaching(
                "attn_requests_rejected_total{reason=\"too_large\"}", 1),
            1);
}

TEST_F(LayersOfAServer, APageSizeThatCannotBeMeantIsRefused) {
  for (const int size : {-1, 1001}) {
    wire::ListLayersRequest request;
    request.set_page_size(size);
    grpc::ClientContext context;
    wire::ListLayersResponse response;
    EXPECT_EQ(layers_->ListLayers(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace attn
