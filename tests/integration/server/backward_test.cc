// AttendBackward over the wire, against central differences of Attend.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> DoublesOf(const wire::Tensor& tensor) {
  std::vector<double> values(tensor.data().size() / sizeof(double));
  std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
  return values;
}

// F64, values in [-1, 1).
wire::Tensor RandomTensor(const std::vector<int64_t>& shape, uint32_t seed) {
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

// q [1, 2, 3, 2], k [1, 1, 4, 2], v [1, 1, 4, 3]; softcap, a bias of [3, 4],
// a causal mask and a temperature for each head.
wire::AttendBackwardRequest SmallRequest() {
  wire::AttendBackwardRequest request;
  wire::AttentionSpec& spec = *request.mutable_spec();
  spec.mutable_score()->mutable_dot()->set_scale(0.75);
  spec.set_softcap(1.5);
  spec.add_biases()->mutable_dense()->mutable_tensor()->set_input(0);
  spec.add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
  spec.add_temperatures(0.5);
  spec.add_temperatures(1.25);
  *request.mutable_q() = RandomTensor({1, 2, 3, 2}, 1);
  *request.mutable_k() = RandomTensor({1, 1, 4, 2}, 2);
  *request.mutable_v() = RandomTensor({1, 1, 4, 3}, 3);
  *request.add_inputs() = RandomTensor({3, 4}, 4);
  *request.mutable_d_output() = RandomTensor({1, 2, 3, 3}, 5);
  *request.mutable_d_lse() = RandomTensor({1, 2, 3}, 6);
  return request;
}

double Product(const wire::Tensor& a, const wire::Tensor& b) {
  const std::vector<double> x = DoublesOf(a);
  const std::vector<double> y = DoublesOf(b);
  EXPECT_EQ(x.size(), y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

class AttendBackwardTest : public ::testing::Test {
 protected:
  grpc::Status Call(const wire::AttendBackwardRequest& request,
                    wire::AttendBackwardResponse* response) {
    grpc::ClientContext context;
    return server_.stub().AttendBackward(&context, request, response);
  }

  // The loss whose gradients the request asks for.
  double Loss(const wire::AttendBackwardRequest& request) {
    wire::AttendRequest forward;
    *forward.mutable_spec() = request.spec();
    *forward.mutable_q() = request.q();
    *forward.mutable_k() = request.k();
    *forward.mutable_v() = request.v();
    *forward.mutable_inputs() = request.inputs();
    forward.add_outputs(wire::OUTPUT_OUTPUT);
    forward.add_outputs(wire::OUTPUT_LSE);
    wire::AttendResponse response;
    const grpc::Status status = server_.Attend(forward, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Product(response.output(), request.d_output()) +
           Product(response.lse(), request.d_lse());
  }

  // d loss / d x, where `change` adds to x.
  double Difference(
      const wire::AttendBackwardRequest& request,
      const std::function<void(double, wire::AttendBackwardRequest&)>& change) {
    constexpr double kStep = 1e-5;
    wire::AttendBackwardRequest more = request;
    wire::AttendBackwardRequest less = request;
    change(kStep, more);
    change(-kStep, less);
    return (Loss(more) - Loss(less)) / (2 * kStep);
  }

  void ExpectGradient(
      const wire::AttendBackwardRequest& request, const wire::Tensor& gradient,
      const std::function<wire::Tensor*(wire::AttendBackwardRequest&)>& of) {
    wire::AttendBackwardRequest copy = request;
    EXPECT_THAT(gradient.shape(),
                ::testing::ElementsAreArray(of(copy)->shape()));
    const std::vector<double> values = DoublesOf(gradient);
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = Difference(
          request, [&](double step, wire::AttendBackwardRequest& changed) {
            double value = 0;
            std::string& data = *of(changed)->mutable_data();
            std::memcpy(&value, &data[i * sizeof value], sizeof value);
            value += step;
            std::memcpy(&data[i * sizeof value], &value, sizeof value);
          });
      // Of a central difference in double.
      EXPECT_NEAR(values[i], expected, 1e-8) << "at " << i;
    }
  }

  RunningServer server_;
};

TEST_F(AttendBackwardTest, GradientsAreCentralDifferences) {
  using Message = wire::AttendBackwardRequest;
  const Message request = SmallRequest();
  wire::AttendBackwardResponse response;
  const grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectGradient(request, response.d_q(),
                 [](Message& m) { return m.mutable_q(); });
  ExpectGradient(request, response.d_k(),
                 [](Message& m) { return m.mutable_k(); });
  ExpectGradient(request, response.d_v(),
                 [](Message& m) { return m.mutable_v(); });
  ASSERT_THAT(response.gradient_inputs(), ElementsAre(0));
  ExpectGradient(request, response.d_inputs(0),
                 [](Message& m) { return m.mutable_inputs(0); });
  EXPECT_FALSE(response.report().kernel().empty());
  EXPECT_FALSE(response.report().request_id().empty());
  EXPECT_DOUBLE_EQ(response.report().effective_scale(), 0.75);
}

TEST_F(AttendBackwardTest, GradientsOfNumbersAreCentralDifferences) {
  using Message = wire::AttendBackwardRequest;
  const Message request = SmallRequest();
  wire::AttendBackwardResponse response;
  const grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  constexpr double kTolerance = 1e-8;
  EXPECT_NEAR(
      response.d_scale(),
      Difference(request,
                 [](double step, Message& m) {
                   wire::DotScore& dot =
                       *m.mutable_spec()->mutable_score()->mutable_dot();
                   dot.set_scale(dot.scale() + step);
                 }),
      kTolerance);
  EXPECT_NEAR(
      response.d_softcap(),
      Difference(request,
                 [](double step, Message& m) {
                   m.mutable_spec()->set_softcap(m.spec().softcap() + step);
                 }),
      kTolerance);
  ASSERT_EQ(response.d_temperatures_size(), 2);
  for (int head = 0; head < 2; ++head) {
    EXPECT_NEAR(response.d_temperatures(head),
                Difference(request,
                           [head](double step, Message& m) {
                             m.mutable_spec()->set_temperatures(
                                 head, m.spec().temperatures(head) + step);
                           }),
                kTolerance);
  }
}

// [1, H, S, D] as [1, S, H, D].
wire::Tensor Swapped(const wire::Tensor& tensor) {
  const auto heads = static_cast<size_t>(tensor.shape(1));
  const auto rows = static_cast<size_t>(tensor.shape(2));
  const size_t row_bytes = tensor.data().size() / heads / rows;
  wire::Tensor swapped = tensor;
  swapped.set_shape(1, tensor.shape(2));
  swapped.set_shape(2, tensor.shape(1));
  swapped.set_layout(wire::TENSOR_LAYOUT_BSHD);
  for (size_t h = 0; h < heads; ++h) {
    for (size_t s = 0; s < rows; ++s) {
      swapped.mutable_data()->replace((s * heads + h) * row_bytes, row_bytes,
                                      tensor.data(), (h * rows + s) * row_bytes,
                                      row_bytes);
    }
  }
  return swapped;
}

TEST_F(AttendBackwardTest, AGradientHasTheLayoutOfItsTensor) {
  const wire::AttendBackwardRequest request = SmallRequest();
  wire::AttendBackwardRequest swapped = request;
  *swapped.mutable_q() = Swapped(request.q());
  *swapped.mutable_v() = Swapped(request.v());
  *swapped.mutable_d_output() = Swapped(request.d_output());
  wire::AttendBackwardResponse expected;
  wire::AttendBackwardResponse got;
  ASSERT_TRUE(Call(request, &expected).ok());
  ASSERT_TRUE(Call(swapped, &got).ok());
  EXPECT_EQ(got.d_q().SerializeAsString(),
            Swapped(expected.d_q()).SerializeAsString());
  EXPECT_EQ(got.d_k().SerializeAsString(), expected.d_k().SerializeAsString());
  EXPECT_EQ(got.d_v().SerializeAsString(),
            Swapped(expected.d_v()).SerializeAsString());
}

TEST_F(AttendBackwardTest, OnlyNamedGradientsComeBack) {
  wire::AttendBackwardRequest request = SmallRequest();
  request.add_gradients(wire::GRADIENT_V);
  wire::AttendBackwardResponse response;
  ASSERT_TRUE(Call(request, &response).ok());
  EXPECT_TRUE(response.has_d_v());
  EXPECT_FALSE(response.has_d_q());
  EXPECT_FALSE(response.has_d_k());
  EXPECT_EQ(response.d_inputs_size(), 0);
}

TEST_F(AttendBackwardTest, AStageWithoutAGradientIsRefusedWithTheReason) {
  wire::AttendBackwardRequest request = SmallRequest();
  request.mutable_spec()->mutable_normalizer()->mutable_hard();
  request.clear_d_lse();
  wire::AttendBackwardResponse response;
  const grpc::Status status = Call(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("spec.normalizer"));
}

TEST_F(AttendBackwardTest, ACotangentOfAnotherShapeIsNamed) {
  wire::AttendBackwardRequest request = SmallRequest();
  *request.mutable_d_output() = RandomTensor({1, 2, 3, 2}, 5);
  wire::AttendBackwardResponse response;
  grpc::Status status = Call(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("d_output"));
  request = SmallRequest();
  request.clear_d_output();
  request.clear_d_lse();
  status = Call(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("d_output"));
}

TEST(AttendBackwardMetrics, CallsAreCountedUnderTheirOwnName) {
  RunningServer server(TestOptionsWithMetrics());
  wire::AttendBackwardResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(
      server.stub().AttendBackward(&context, SmallRequest(), &response).ok());
  EXPECT_EQ(server.MetricReaching(
                "attn_requests_total{code=\"OK\",method="
                "\"AttendBackward\",variant=\"dot_softmax_bias_causal\"}",
                1),
            1);
}

}  // namespace
}  // namespace attn
