// What the encoders write, against the bytes of the generated classes.
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/spec_codec.h"
#include "tests/proto/codec/allocation_counter.h"
#include "tests/proto/codec/codec_fixture.h"
#include "tests/proto/codec/random_request.h"

namespace attn {
namespace {

std::vector<float> Iota(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

// q [1, 2, 3, 2], k [1, 1, 2, 2], v [1, 1, 2, 1] of `values`.
AttendMessage SmallMessage(const std::vector<float>& values) {
  AttendMessage message;
  message.args.q = TensorView::Dense(values.data(), DType::kF32, {1, 2, 3, 2});
  message.args.k = TensorView::Dense(values.data(), DType::kF32, {1, 1, 2, 2});
  message.args.v = TensorView::Dense(values.data(), DType::kF32, {1, 1, 2, 1});
  message.wanted.output = true;
  return message;
}

AttendMessage ToMessage(const AttendCall& call,
                        const v1::AttendRequest& request) {
  AttendMessage message;
  message.spec = call.spec;
  message.args = call.args;
  message.wanted = call.wanted;
  message.bshd = call.bshd;
  message.kernel = call.kernel;
  message.request_id = call.request_id;
  if (request.output_dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    message.output_dtype = call.output_dtype;
  }
  return message;
}

// `request` as the encoder would spell it: the outputs once each in the
// schema's order, the stages in full, layouts only where they are needed and
// alike.
v1::AttendRequest Canonical(v1::AttendRequest request) {
  std::vector<int> outputs(request.outputs().begin(), request.outputs().end());
  if (outputs.empty()) outputs = {v1::OUTPUT_OUTPUT};
  std::sort(outputs.begin(), outputs.end());
  outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
  request.mutable_outputs()->Assign(outputs.begin(), outputs.end());
  v1::AttentionSpec& spec = *request.mutable_spec();
  spec.mutable_score()->mutable_dot();
  spec.mutable_normalizer()->mutable_softmax();
  v1::TensorLayout layout = request.q().layout();
  if (layout == v1::TENSOR_LAYOUT_BHSD) {
    layout = v1::TENSOR_LAYOUT_UNSPECIFIED;
  }
  request.mutable_q()->set_layout(layout);
  request.mutable_k()->set_layout(layout);
  request.mutable_v()->set_layout(layout);
  return request;
}

TEST(AttendEncoder, WritesTheBytesOfTheGeneratedClass) {
  RandomRequest requests(5);
  for (int i = 0; i < 300; ++i) {
    const v1::AttendRequest request = Canonical(requests.Draw());
    const auto call = Decode(request);
    ASSERT_TRUE(call.ok()) << call.status();
    ASSERT_EQ(Join(EncodeAttendRequest(ToMessage(*call, request))),
              request.SerializeAsString())
        << request.DebugString();
  }
}

TEST(AttendEncoder, PayloadsAreReferredToNotCopied) {
  const std::vector<float> values = Iota(12);
  const auto* address = reinterpret_cast<const std::byte*>(values.data());
  const auto chunks = EncodeAttendRequest(SmallMessage(values));
  std::vector<size_t> borrowed;
  for (const WireChunk& chunk : chunks) {
    EXPECT_EQ(chunk.owned_size, 0U);
    EXPECT_NE(chunk.bytes.empty(), chunk.borrowed == nullptr);
    if (chunk.borrowed == nullptr) continue;
    EXPECT_EQ(chunk.borrowed, address);
    borrowed.push_back(chunk.borrowed_size);
  }
  EXPECT_THAT(borrowed, testing::ElementsAre(48, 16, 8));
}

TEST(AttendEncoder, SendingTakesNoMemoryForThePayload) {
  const std::vector<float> values(1 << 20, 1.0F);
  AttendMessage message = SmallMessage(values);
  message.args.q =
      TensorView::Dense(values.data(), DType::kF32, {1, 1, 1024, 1024});
  // Protobuf builds its tables on first use; that is not counted.
  EXPECT_FALSE(EncodeAttendRequest(message).empty());
  const size_t before = AllocatedBytes();
  const auto chunks = EncodeAttendRequest(message);
  EXPECT_LT(AllocatedBytes() - before, 65536U);
  EXPECT_FALSE(chunks.empty());
}

TEST(AttendEncoder, AViewThatIsNotRowMajorIsGathered) {
  const std::vector<float> values = Iota(12);
  AttendMessage message = SmallMessage(values);
  message.args.q = message.args.q.SwapAxes(2, 3);
  const auto call = Decode(Join(EncodeAttendRequest(message)));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(DimsOf(call->args.q.shape), (std::vector<int64_t>{1, 2, 2, 3}));
  const auto* sent = reinterpret_cast<const float*>(call->args.q.data);
  EXPECT_THAT(std::vector<float>(sent, sent + 12),
              testing::ElementsAre(1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12));
}

TEST(AttendEncoder, EitherOrderOnTheWireMeansTheSameTensor) {
  const std::vector<float> values = Iota(12);
  AttendMessage message = SmallMessage(values);
  message.bshd = true;
  v1::AttendRequest request;
  ASSERT_TRUE(request.ParseFromString(Join(EncodeAttendRequest(message))));
  EXPECT_EQ(request.q().layout(), v1::TENSOR_LAYOUT_BSHD);
  EXPECT_THAT(request.q().shape(), testing::ElementsAre(1, 3, 2, 2));
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  const TensorView& q = call->args.q;
  EXPECT_EQ(DimsOf(q.shape), (std::vector<int64_t>{1, 2, 3, 2}));
  const auto* sent = reinterpret_cast<const float*>(q.data);
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t at = i / 6 * q.strides[1] + i / 2 % 3 * q.strides[2] + i % 2;
    EXPECT_EQ(sent[at], values[static_cast<size_t>(i)]);
  }
}

TEST(AttendEncoder, EmptyTensorsMakeNoEmptyChunks) {
  const std::vector<float> values = Iota(12);
  AttendMessage message = SmallMessage(values);
  message.args.k = TensorView::Dense(values.data(), DType::kF32, {1, 1, 0, 2});
  message.args.v = TensorView::Dense(values.data(), DType::kF32, {1, 1, 0, 1});
  for (const WireChunk& chunk : EncodeAttendRequest(message)) {
    EXPECT_GT(chunk.bytes.size() + chunk.borrowed_size + chunk.owned_size, 0U);
  }
}

TEST(PlanCodec, APlanRequestIsAnAttendRequestWithoutPayloads) {
  RandomRequest requests(6);
  for (int i = 0; i < 200; ++i) {
    const v1::AttendRequest request = Canonical(requests.Draw());
    const auto call = Decode(request);
    ASSERT_TRUE(call.ok()) << call.status();
    const AttendMessage message = ToMessage(*call, request);
    const auto plan = DecodePlanRequest(EncodePlanRequest(message));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->spec, call->spec);
    EXPECT_EQ(plan->bshd, call->bshd);
    EXPECT_EQ(plan->output_dtype, call->output_dtype);
    EXPECT_EQ(plan->kernel, call->kernel);
    EXPECT_EQ(plan->args.q_lengths, call->args.q_lengths);
    EXPECT_EQ(plan->args.kv_lengths, call->args.kv_lengths);
    EXPECT_EQ(plan->args.q.data, nullptr);
    EXPECT_EQ(plan->args.q.shape, call->args.q.shape);
    EXPECT_EQ(plan->args.k.dtype, call->args.k.dtype);
    EXPECT_EQ(plan->args.v.strides, call->args.v.strides);
    EXPECT_EQ(plan->args.inputs.size(), call->args.inputs.size());
  }
}

TEST(PlanCodec, ErrorsNameTheField) {
  v1::PlanRequest request;
  const auto bad_field = [&request] {
    return FieldOf(DecodePlanRequest(request).status()).value_or("");
  };
  EXPECT_EQ(bad_field(), "q");
  for (v1::TensorInfo* info :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    info->set_dtype(v1::DATA_TYPE_F32);
    for (int axis = 0; axis < 4; ++axis) info->add_shape(2);
  }
  EXPECT_EQ(bad_field(), "");
  request.add_inputs();
  EXPECT_EQ(bad_field(), "inputs[0].dtype");
  request.mutable_k()->set_shape(1, -1);
  EXPECT_EQ(bad_field(), "k.shape");
  request.clear_v();
  EXPECT_EQ(bad_field(), "v");
}

}  // namespace
}  // namespace attn
