// Inspect and AttendBackward of calls that are no padded tensors by head:
// ragged ones, and those of token rows.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/inspecting.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 4;

void AskForScores(wire::AttendRequest& call, wire::InspectRequest& request) {
  for (const wire::Output output :
       {wire::OUTPUT_LOGITS, wire::OUTPUT_MASKED_LOGITS, wire::OUTPUT_WEIGHTS,
        wire::OUTPUT_ROW_STATISTICS}) {
    call.add_outputs(output);
  }
  for (const wire::InspectView view :
       {wire::INSPECT_VIEW_LOGITS, wire::INSPECT_VIEW_MASKED_LOGITS,
        wire::INSPECT_VIEW_WEIGHTS}) {
    request.add_views(view);
  }
}

void ExpectAsAttended(const wire::InspectResponse& seen,
                      const wire::AttendResponse& whole) {
  EXPECT_EQ(seen.logits().data(), whole.logits().data());
  EXPECT_EQ(seen.masked_logits().data(), whole.masked_logits().data());
  EXPECT_EQ(seen.weights().data(), whole.weights().data());
  EXPECT_EQ(seen.row_statistics().SerializeAsString(),
            whole.row_statistics().SerializeAsString());
}

// Sequences of 3 and 2 queries, 4 and 5 keys.
wire::AttendRequest RaggedCall() {
  wire::AttendRequest call;
  call.mutable_spec()->add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
  for (const int64_t offset : {0, 3, 5}) call.add_q_offsets(offset);
  for (const int64_t offset : {0, 4, 9}) call.add_kv_offsets(offset);
  *call.mutable_q() =
      FloatTensor({5, kHeads, kDim}, RandomFloats(5 * kHeads * kDim, 1));
  *call.mutable_k() =
      FloatTensor({9, kHeads, kDim}, RandomFloats(9 * kHeads * kDim, 2));
  *call.mutable_v() =
      FloatTensor({9, kHeads, kDim}, RandomFloats(9 * kHeads * kDim, 3));
  return call;
}

wire::Tensor Cotangent() {
  return FloatTensor({5, kHeads, kDim}, RandomFloats(5 * kHeads * kDim, 4));
}

// Rows [begin, end) of a ragged tensor as a batch of one, in the order of its
// axes: [1, S, H, D].
wire::Tensor Sequence(const wire::Tensor& tensor, int64_t begin, int64_t end) {
  const size_t row = kHeads * kDim * sizeof(float);
  wire::Tensor sequence = tensor;
  sequence.clear_shape();
  for (const int64_t extent : {int64_t{1}, end - begin, kHeads, kDim}) {
    sequence.add_shape(extent);
  }
  sequence.set_layout(wire::TENSOR_LAYOUT_BSHD);
  sequence.set_data(
      tensor.data().substr(static_cast<size_t>(begin) * row,
                           static_cast<size_t>(end - begin) * row));
  return sequence;
}

TEST_F(InspectTest, RaggedCallsAreShownPadded) {
  wire::AttendRequest call = RaggedCall();
  wire::InspectRequest request = InspectOf(call);
  *request.mutable_q_offsets() = call.q_offsets();
  *request.mutable_kv_offsets() = call.kv_offsets();
  AskForScores(call, request);
  const wire::InspectResponse seen = Inspected(request);
  ExpectAsAttended(seen, Attended(call));
  EXPECT_THAT(seen.weights().shape(), ElementsAre(2, kHeads, 3, 5));

  // The second sequence alone, and what its cotangent says of the weights.
  request.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT);
  *request.mutable_d_output() = Cotangent();
  request.mutable_window()->mutable_batch()->set_begin(1);
  request.mutable_window()->mutable_query()->set_end(2);
  const wire::InspectResponse part = Inspected(request);
  wire::InspectRequest alone;
  *alone.mutable_spec() = call.spec();
  *alone.mutable_q() = Sequence(call.q(), 3, 5);
  *alone.mutable_k() = Sequence(call.k(), 4, 9);
  *alone.mutable_v() = Sequence(call.v(), 4, 9);
  *alone.mutable_d_output() = Sequence(Cotangent(), 3, 5);
  alone.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT);
  EXPECT_EQ(part.gradient_weight().data(),
            Inspected(alone).gradient_weight().data());
}

TEST_F(InspectTest, GradientsOfRaggedCallsAreThoseOfEachSequence) {
  const wire::AttendRequest call = RaggedCall();
  wire::AttendBackwardRequest request;
  *request.mutable_spec() = call.spec();
  *request.mutable_q_offsets() = call.q_offsets();
  *request.mutable_kv_offsets() = call.kv_offsets();
  *request.mutable_q() = call.q();
  *request.mutable_k() = call.k();
  *request.mutable_v() = call.v();
  *request.mutable_d_output() = Cotangent();
  wire::AttendBackwardResponse response;
  const auto go_back = [this](const wire::AttendBackwardRequest& asked,
                              wire::AttendBackwardResponse* got) {
    grpc::ClientContext context;
    const grpc::Status status =
        server_.stub().AttendBackward(&context, asked, got);
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  go_back(request, &response);
  EXPECT_THAT(response.d_q().shape(), ElementsAre(5, kHeads, kDim));
  const int64_t rows[] = {0, 3, 5};
  const int64_t keys[] = {0, 4, 9};
  std::string d_q;
  std::string d_v;
  for (int b = 0; b < 2; ++b) {
    wire::AttendBackwardRequest alone;
    *alone.mutable_spec() = call.spec();
    *alone.mutable_q() = Sequence(call.q(), rows[b], rows[b + 1]);
    *alone.mutable_k() = Sequence(call.k(), keys[b], keys[b + 1]);
    *alone.mutable_v() = Sequence(call.v(), keys[b], keys[b + 1]);
    *alone.mutable_d_output() = Sequence(Cotangent(), rows[b], rows[b + 1]);
    wire::AttendBackwardResponse one;
    go_back(alone, &one);
    d_q += one.d_q().data();
    d_v += one.d_v().data();
  }
  EXPECT_EQ(response.d_q().data(), d_q);
  EXPECT_EQ(response.d_v().data(), d_v);
}

TEST_F(InspectTest, CallsOfTokenRowsShowTheirHeads) {
  wire::AttendRequest call;
  wire::Projections& spec = *call.mutable_spec()->mutable_projections();
  spec.set_q_heads(2);
  spec.mutable_query()->mutable_weight()->set_input(0);
  spec.mutable_key()->mutable_weight()->set_input(1);
  spec.mutable_value()->mutable_weight()->set_input(2);
  spec.mutable_output()->mutable_weight()->set_input(3);
  for (uint32_t i = 0; i < 4; ++i) {
    *call.add_inputs() = FloatTensor({6, 6}, RandomFloats(36, 10 + i));
  }
  for (wire::Tensor* x :
       {call.mutable_q(), call.mutable_k(), call.mutable_v()}) {
    *x = FloatTensor({1, 5, 6}, RandomFloats(30, 1));
  }
  wire::InspectRequest request = InspectOf(call);
  AskForScores(call, request);
  ExpectAsAttended(Inspected(request), Attended(call));
  request.add_sweep_temperatures(2);
  EXPECT_EQ(Inspected(request).sweep_size(), 1);
}

TEST_F(InspectTest, ACotangentComesBackThroughTheOutputLayer) {
  // Its weight is the identity: rows of [H * D] are those of the heads.
  wire::InspectRequest by_head = InspectOf(RandomRequest(
      {.q_heads = 2, .kv_heads = 2, .q_length = 3, .kv_length = 4, .dim = 2},
      5));
  by_head.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT);
  wire::InspectRequest layered = by_head;
  std::vector<float> rows(12);
  const std::vector<float> heads = RandomFloats(12, 6);  // [2, 3, 2]
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t c = 0; c < 2; ++c) {
        rows[(i * 2 + h) * 2 + c] = heads[(h * 3 + i) * 2 + c];
      }
    }
  }
  *by_head.mutable_d_output() = FloatTensor({1, 2, 3, 2}, heads);
  std::vector<float> identity(16, 0);
  for (size_t i = 0; i < 4; ++i) identity[i * 5] = 1;
  layered.mutable_spec()
      ->mutable_projections()
      ->mutable_output()
      ->mutable_weight()
      ->set_input(0);
  *layered.add_inputs() = FloatTensor({4, 4}, identity);
  *layered.mutable_d_output() = FloatTensor({1, 3, 4}, rows);
  EXPECT_EQ(Inspected(layered).gradient_weight().data(),
            Inspected(by_head).gradient_weight().data());
}

}  // namespace
}  // namespace attn
