// Inspect of tensors that the server keeps, in place of q, k and v.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/v1/layer.grpc.pb.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/status_codec.h"
#include "tests/integration/server/inspecting.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 9;
constexpr int64_t kWidth = 4;
constexpr int64_t kHeadsOfCall = 2;
const TestShape kSquare{.q_heads = kHeadsOfCall,
                        .kv_heads = kHeadsOfCall,
                        .q_length = kRows,
                        .kv_length = kRows,
                        .dim = kWidth};

void Name(const char* layer, const char* tensor, wire::LayerTensor* named) {
  named->set_layer(layer);
  named->set_tensor(tensor);
}

class LayerOperandTest : public InspectTest {
 protected:
  LayerOperandTest() : call_(RandomRequest(kSquare, 5)) {
    call_.mutable_spec()->add_masks()->mutable_causal()->set_alignment(
        wire::ALIGNMENT_BOTTOM_RIGHT);
    wire::PutLayerRequest put;
    put.set_name("long");
    for (const auto& [name, tensor] :
         {std::pair<const char*, const wire::Tensor*>{"q", &call_.q()},
          {"k", &call_.k()},
          {"v", &call_.v()}}) {
      put.add_tensors()->set_name(name);
      *put.mutable_tensors()->rbegin()->mutable_tensor() = *tensor;
    }
    grpc::ClientContext context;
    wire::PutLayerResponse response;
    EXPECT_TRUE(wire::LayerService::NewStub(server_.Connect())
                    ->PutLayer(&context, put, &response)
                    .ok());
  }

  // All views of the call, its tensors sent.
  wire::InspectRequest Sent() const {
    wire::InspectRequest request = InspectOf(call_);
    request.set_request_id("same");
    for (const wire::InspectView view :
         {wire::INSPECT_VIEW_LOGITS, wire::INSPECT_VIEW_MASKED_LOGITS,
          wire::INSPECT_VIEW_WEIGHTS, wire::INSPECT_VIEW_CONTRIBUTION}) {
      request.add_views(view);
    }
    return request;
  }
  // The same of the layer.
  wire::InspectRequest Kept() const {
    wire::InspectRequest request = Sent();
    request.clear_q();
    request.clear_k();
    request.clear_v();
    Name("long", "q", request.mutable_q_layer());
    Name("long", "k", request.mutable_k_layer());
    Name("long", "v", request.mutable_v_layer());
    return request;
  }
  std::string BitsOf(const wire::InspectRequest& request) {
    wire::InspectResponse response = Inspected(request);
    response.mutable_report()->clear_timings();
    return response.SerializeAsString();
  }
  // The message; the field must be the one.
  std::string WhyNot(const wire::InspectRequest& request,
                     const std::string& field) {
    wire::InspectResponse response;
    const grpc::Status status = Inspect(server_, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(FieldOf(FromGrpcStatus(status)), field) << status.error_message();
    return status.error_message();
  }

  wire::AttendRequest call_;
};

TEST_F(LayerOperandTest, TheAnswerIsThatOfTheTensorsSent) {
  const std::string expected = BitsOf(Sent());
  EXPECT_EQ(BitsOf(Kept()), expected);
  // One of them, and the others sent.
  wire::InspectRequest mixed = Kept();
  mixed.clear_q_layer();
  mixed.clear_v_layer();
  *mixed.mutable_q() = call_.q();
  *mixed.mutable_v() = call_.v();
  EXPECT_EQ(BitsOf(mixed), expected);
}

TEST_F(LayerOperandTest, TheSameTensorMayStandForAllThree) {
  wire::InspectRequest kept = Kept();
  Name("long", "k", kept.mutable_q_layer());
  Name("long", "k", kept.mutable_v_layer());
  wire::InspectRequest sent = Sent();
  *sent.mutable_q() = call_.k();
  *sent.mutable_v() = call_.k();
  EXPECT_EQ(BitsOf(kept), BitsOf(sent));
}

// Rows [begin, end) of each head of [1, heads, rows, keys].
std::vector<float> RowsOf(const std::vector<float>& all, int64_t rows,
                          int64_t begin, int64_t end) {
  const int64_t keys = static_cast<int64_t>(all.size()) / kHeadsOfCall / rows;
  std::vector<float> some;
  for (int64_t head = 0; head < kHeadsOfCall; ++head) {
    const auto first = all.begin() + (head * rows + begin) * keys;
    some.insert(some.end(), first, first + (end - begin) * keys);
  }
  return some;
}

TEST_F(LayerOperandTest, AWindowIsTheRowsOfTheWhole) {
  const wire::InspectResponse whole = Inspected(Sent());
  wire::InspectRequest request = Kept();
  request.mutable_window()->mutable_query()->set_begin(3);
  request.mutable_window()->mutable_query()->set_end(7);
  const wire::InspectResponse seen = Inspected(request);
  EXPECT_EQ(Floats(seen.weights()),
            RowsOf(Floats(whole.weights()), kRows, 3, 7));
  EXPECT_EQ(Floats(seen.masked_logits()),
            RowsOf(Floats(whole.masked_logits()), kRows, 3, 7));
}

// The last queries, beside all keys: where they stand is said by the alignment.
TEST_F(LayerOperandTest, TheLastRowsMayBeSentBesideKeysThatAreKept) {
  constexpr int64_t kLast = 4;
  const wire::InspectResponse whole = Inspected(Sent());
  wire::InspectRequest request = Kept();
  request.clear_q_layer();
  *request.mutable_q() =
      FloatTensor({1, kHeadsOfCall, kLast, kWidth},
                  RowsOf(Floats(call_.q()), kRows, kRows - kLast, kRows));
  const std::vector<float> seen = Floats(Inspected(request).weights());
  const std::vector<float> expected =
      RowsOf(Floats(whole.weights()), kRows, kRows - kLast, kRows);
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NEAR(seen[i], expected[i], 1e-6);
    // What is masked is exactly 0, in the one as in the other.
    EXPECT_EQ(seen[i] == 0, expected[i] == 0);
  }
}

TEST_F(LayerOperandTest, ATensorBesideALayerIsRefused) {
  wire::InspectRequest request = Kept();
  *request.mutable_k() = call_.k();
  EXPECT_THAT(WhyNot(request, "k_layer"), HasSubstr("one of the two"));
}

TEST_F(LayerOperandTest, WhatIsNotThereIsNamed) {
  wire::InspectRequest no_layer = Kept();
  Name("none", "k", no_layer.mutable_k_layer());
  EXPECT_THAT(WhyNot(no_layer, "k_layer"), HasSubstr("no layer \"none\""));
  wire::InspectRequest no_tensor = Kept();
  Name("long", "none", no_tensor.mutable_v_layer());
  EXPECT_THAT(WhyNot(no_tensor, "v_layer"),
              HasSubstr("no tensor \"none\" in layer \"long\""));
  wire::InspectRequest no_name = Kept();
  Name("long", "", no_name.mutable_q_layer());
  WhyNot(no_name, "q_layer.tensor");
  Name("", "q", no_name.mutable_q_layer());
  WhyNot(no_name, "q_layer.layer");
  wire::InspectRequest nothing = Kept();
  nothing.clear_k_layer();
  WhyNot(nothing, "k");
}

TEST_F(LayerOperandTest, ATensorThatDoesNotFitIsRefused) {
  wire::PutLayerRequest put;
  put.set_name("flat");
  put.add_tensors()->set_name("k");
  *put.mutable_tensors(0)->mutable_tensor() =
      FloatTensor({kRows}, RandomFloats(kRows, 1));
  grpc::ClientContext context;
  wire::PutLayerResponse response;
  ASSERT_TRUE(wire::LayerService::NewStub(server_.Connect())
                  ->PutLayer(&context, put, &response)
                  .ok());
  wire::InspectRequest request = Kept();
  Name("flat", "k", request.mutable_k_layer());
  wire::InspectResponse seen;
  const grpc::Status status = Inspect(server_, request, &seen);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), ::testing::StartsWith("k"));
}

// A layer that is replaced meanwhile, or deleted, is kept by the calls of it.
TEST_F(LayerOperandTest, OnlyNewCallsSeeALayerThatIsDeleted) {
  EXPECT_NE(BitsOf(Kept()), "");
  wire::DeleteLayerRequest request;
  request.set_name("long");
  grpc::ClientContext context;
  wire::DeleteLayerResponse response;
  ASSERT_TRUE(wire::LayerService::NewStub(server_.Connect())
                  ->DeleteLayer(&context, request, &response)
                  .ok());
  WhyNot(Kept(), "q_layer");
}

}  // namespace
}  // namespace attn
