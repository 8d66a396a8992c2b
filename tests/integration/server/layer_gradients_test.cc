// AttendBackward through projections, over the wire: weights in the call and
// weights of a layer on the server.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

using Request = wire::AttendBackwardRequest;
using Response = wire::AttendBackwardResponse;

wire::Tensor Doubles(const std::vector<int64_t>& shape, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const std::vector<float> floats = RandomFloats(count, seed);
  const std::vector<double> values(floats.begin(), floats.end());
  wire::Tensor tensor;
  tensor.set_dtype(wire::DATA_TYPE_F64);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(double));
  return tensor;
}

double At(const wire::Tensor& tensor, size_t index) {
  double value = 0;
  std::memcpy(&value, tensor.data().data() + index * sizeof value,
              sizeof value);
  return value;
}

void AddTo(wire::Tensor& tensor, size_t index, double step) {
  const double value = At(tensor, index) + step;
  std::memcpy(tensor.mutable_data()->data() + index * sizeof value, &value,
              sizeof value);
}

// Self-attention of two heads: x [1, 3, 4], weights [4, 4] and [5, 4].
class LayerGradients : public ::testing::Test {
 protected:
  LayerGradients() : layers_(wire::LayerService::NewStub(server_.Connect())) {}

  static Request Module() {
    Request request;
    wire::Projections& spec = *request.mutable_spec()->mutable_projections();
    spec.set_q_heads(2);
    uint32_t input = 0;
    for (wire::LinearLayer* layer :
         {spec.mutable_query(), spec.mutable_key(), spec.mutable_value(),
          spec.mutable_output()}) {
      layer->mutable_weight()->set_input(input++);
      layer->mutable_bias()->set_input(input++);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      const int64_t out = i == 3 ? 5 : 4;
      *request.add_inputs() = Doubles({out, 4}, 10 + i);
      *request.add_inputs() = Doubles({out}, 20 + i);
    }
    for (wire::Tensor* x :
         {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
      *x = Doubles({1, 3, 4}, 1);
    }
    *request.mutable_d_output() = Doubles({1, 3, 5}, 2);
    return request;
  }

  grpc::Status Call(const Request& request, Response* response) {
    grpc::ClientContext context;
    return server_.stub().AttendBackward(&context, request, response);
  }

  double Loss(const Request& request) {
    wire::AttendRequest forward;
    *forward.mutable_spec() = request.spec();
    *forward.mutable_q() = request.q();
    *forward.mutable_k() = request.k();
    *forward.mutable_v() = request.v();
    *forward.mutable_inputs() = request.inputs();
    wire::AttendResponse response;
    const grpc::Status status = server_.Attend(forward, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    double loss = 0;
    for (size_t i = 0; i < 15; ++i) {
      loss += At(response.output(), i) * At(request.d_output(), i);
    }
    return loss;
  }

  RunningServer server_;
  std::unique_ptr<wire::LayerService::Stub> layers_;
};

TEST_F(LayerGradients, OfWeightsInTheCallAreCentralDifferences) {
  const Request request = Module();
  Response response;
  const grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.d_q().shape(), ElementsAre(1, 3, 4));
  ASSERT_EQ(response.d_inputs_size(), 8);
  EXPECT_EQ(response.d_layers_size(), 0);
  constexpr double kStep = 1e-5;
  for (int input = 0; input < 8; ++input) {
    for (const size_t element : {size_t{0}, size_t{3}}) {
      Request more = request;
      Request less = request;
      AddTo(*more.mutable_inputs(input), element, kStep);
      AddTo(*less.mutable_inputs(input), element, -kStep);
      EXPECT_NEAR(At(response.d_inputs(input), element),
                  (Loss(more) - Loss(less)) / (2 * kStep), 1e-8)
          << input;
    }
  }
}

TEST_F(LayerGradients, OfANamedLayerAreThoseOfTheSameNumbersInTheCall) {
  const Request in_call = Module();
  Response expected;
  ASSERT_TRUE(Call(in_call, &expected).ok());
  wire::PutLayerRequest put;
  put.set_name("mine");
  for (const int input : {0, 1, 6}) {
    wire::NamedTensor& tensor = *put.add_tensors();
    tensor.set_name("t" + std::to_string(input));
    *tensor.mutable_tensor() = in_call.inputs(input);
  }
  grpc::ClientContext context;
  wire::PutLayerResponse stored;
  ASSERT_TRUE(layers_->PutLayer(&context, put, &stored).ok());
  Request by_name = in_call;
  wire::Projections& spec = *by_name.mutable_spec()->mutable_projections();
  const auto name = [](wire::TensorRef& ref, const std::string& tensor) {
    ref.mutable_layer()->set_layer("mine");
    ref.mutable_layer()->set_tensor(tensor);
  };
  name(*spec.mutable_query()->mutable_weight(), "t0");
  name(*spec.mutable_query()->mutable_bias(), "t1");
  name(*spec.mutable_output()->mutable_weight(), "t6");
  Response response;
  grpc::Status status = Call(by_name, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.d_layers_size(), 3);
  ASSERT_EQ(response.gradient_layers_size(), 3);
  const int of[] = {0, 1, 6};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(response.gradient_layers(i).layer(), "mine");
    EXPECT_EQ(response.gradient_layers(i).tensor(),
              "t" + std::to_string(of[i]));
    EXPECT_EQ(response.d_layers(i).data(), expected.d_inputs(of[i]).data());
  }
  // In the call they are no longer named by the spec: 0.
  EXPECT_EQ(At(response.d_inputs(0), 0), 0.0);
  EXPECT_EQ(response.d_inputs(2).data(), expected.d_inputs(2).data());

  by_name.add_gradients(wire::GRADIENT_LAYERS);
  Response alone;
  status = Call(by_name, &alone);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(alone.d_layers_size(), 3);
  EXPECT_EQ(alone.d_inputs_size(), 0);
  EXPECT_FALSE(alone.has_d_q());
}

TEST_F(LayerGradients, LatentAttentionHasNoGradientOfV) {
  Request request;
  wire::Projections& spec = *request.mutable_spec()->mutable_projections();
  spec.set_q_heads(2);
  auto& latent = *spec.mutable_latent();
  latent.set_plain_dim(2);
  latent.mutable_rotary()->set_layout(wire::ROTARY_LAYOUT_HALF_SPLIT);
  latent.mutable_rotary()->set_rotary_dim(2);
  latent.mutable_query_up()->mutable_weight()->set_input(0);
  latent.mutable_kv_down()->mutable_weight()->set_input(1);
  latent.mutable_kv_up()->mutable_weight()->set_input(2);
  *request.add_inputs() = Doubles({8, 4}, 1);
  *request.add_inputs() = Doubles({5, 4}, 2);
  *request.add_inputs() = Doubles({10, 3}, 3);
  *request.mutable_q() = Doubles({1, 3, 4}, 4);
  *request.mutable_k() = Doubles({1, 3, 4}, 4);
  *request.mutable_d_output() = Doubles({1, 2, 3, 3}, 5);
  Response response;
  grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(response.has_d_v());
  EXPECT_THAT(response.d_k().shape(), ElementsAre(1, 3, 4));
  EXPECT_EQ(response.d_inputs_size(), 3);
  request.add_gradients(wire::GRADIENT_V);
  status = Call(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("gradients:"));
}

}  // namespace
}  // namespace attn
