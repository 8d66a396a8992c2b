// Step on the wire: digests, what clients write, and the answers.
#include "proto/codec/session_codec.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/stream_message.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

absl::StatusOr<StepCall> ReadStep(const v1::StepRequest& request) {
  const std::string bytes = request.SerializeAsString();
  PieceStream stream(bytes, 11);
  return DecodeStepRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy);
}

// One token for layers 0 and 2, in 16-bit floats.
v1::StepRequest SmallStep() {
  v1::StepRequest request;
  request.set_session_id("5e551042");
  request.set_epoch(2);
  request.set_step(3);
  request.set_position(5);
  request.add_layers(0);
  request.add_layers(2);
  for (uint16_t i = 0; i < 2; ++i) {
    const auto bits = static_cast<uint16_t>(0x3c00 + 16 * i);
    SetTensor<uint16_t>(v1::DATA_TYPE_F16, {1, 2, 1, 2},
                        {bits, 0x3c01, 0x3c02, 0x3c03}, request.add_q());
    SetTensor<uint16_t>(v1::DATA_TYPE_F16, {1, 1, 1, 2}, {bits, 0x3c05},
                        request.add_k());
    SetTensor<uint16_t>(v1::DATA_TYPE_F16, {1, 1, 1, 2}, {bits, 0x3c07},
                        request.add_v());
  }
  return request;
}

uint64_t DigestWith(const std::function<void(v1::StepRequest&)>& change) {
  v1::StepRequest request = SmallStep();
  change(request);
  const auto call = ReadStep(request);
  EXPECT_TRUE(call.ok()) << call.status();
  return call.ok() ? call->digest : 0;
}

TEST(StepDigest, IsThatOfTheSameStepWhoeverAsks) {
  const uint64_t digest = DigestWith([](auto&) {});
  EXPECT_EQ(DigestWith([](auto&) {}), digest);
  EXPECT_EQ(DigestWith([](auto& r) { r.set_request_id("again"); }), digest);
  EXPECT_EQ(DigestWith([](auto& r) { r.set_priority(v1::PRIORITY_LOW); }),
            digest);
}

// The small step and others that differ in one thing.
std::vector<v1::StepRequest> DifferentSteps() {
  const std::function<void(v1::StepRequest&)> changes[] = {
      [](auto&) {},
      [](auto& r) { r.set_session_id("5e551043"); },
      [](auto& r) { r.set_epoch(3); },
      [](auto& r) { r.set_step(2); },
      [](auto& r) { r.set_position(6); },
      [](auto& r) { r.set_layers(1, 1); },
      [](auto& r) { r.mutable_layers()->SwapElements(0, 1); },
      [](auto& r) { r.mutable_q()->SwapElements(0, 1); },
      [](auto& r) { r.mutable_k()->SwapElements(0, 1); },
      [](auto& r) { r.mutable_v()->SwapElements(0, 1); },
      // The same bytes as something else.
      [](auto& r) { r.mutable_k(0)->set_dtype(v1::DATA_TYPE_BF16); },
      [](auto& r) {
        r.mutable_q(0)->set_shape(1, 1);
        r.mutable_q(0)->set_shape(3, 4);
      },
      [](auto& r) {
        r.mutable_q(1)->set_layout(v1::TENSOR_LAYOUT_BSHD);
        r.mutable_q(1)->set_shape(1, 1);
        r.mutable_q(1)->set_shape(2, 2);
      },
      // A row that moves from the end of q to the front of k.
      [](auto& r) {
        std::string& q = *r.mutable_q(1)->mutable_data();
        std::string& k = *r.mutable_k(0)->mutable_data();
        k.insert(0, q, 4);
        q.resize(4);
        r.mutable_q(1)->set_shape(1, 1);
        r.mutable_k(0)->set_shape(1, 2);
      },
  };
  std::vector<v1::StepRequest> steps;
  for (const auto& change : changes) change(steps.emplace_back(SmallStep()));
  for (int tensor = 0; tensor < 6; ++tensor) {
    const v1::StepRequest small = SmallStep();
    const size_t bytes = (tensor < 2 ? small.q(0) : small.k(0)).data().size();
    for (size_t byte = 0; byte < bytes; ++byte) {
      v1::StepRequest& step = steps.emplace_back(small);
      auto& list = tensor < 2   ? *step.mutable_q()
                   : tensor < 4 ? *step.mutable_k()
                                : *step.mutable_v();
      (*list.Mutable(tensor % 2)->mutable_data())[byte] ^= 1;
    }
  }
  return steps;
}

TEST(StepDigest, TellsEveryOtherStepApart) {
  const std::vector<v1::StepRequest> steps = DifferentSteps();
  std::set<uint64_t> digests;
  for (const v1::StepRequest& step : steps) {
    const auto call = ReadStep(step);
    ASSERT_TRUE(call.ok()) << call.status() << step.DebugString();
    digests.insert(call->digest);
  }
  EXPECT_THAT(digests, SizeIs(steps.size()));
}

// Views the payloads of `request`, as a client has them.
StepMessage MessageOf(const v1::StepRequest& request) {
  StepMessage message;
  message.session_id = request.session_id();
  message.epoch = request.epoch();
  message.step = request.step();
  message.position = request.position();
  message.request_id = request.request_id();
  message.priority = request.priority();
  const auto view = [](const v1::Tensor& tensor) {
    const auto& shape = tensor.shape();
    return TensorView::Dense(tensor.data().data(), DType::kF16,
                             Shape{shape[0], shape[1], shape[2], shape[3]});
  };
  for (int i = 0; i < request.q_size(); ++i) {
    message.layers.push_back({.layer = request.layers(i),
                              .q = view(request.q(i)),
                              .k = view(request.k(i)),
                              .v = view(request.v(i))});
  }
  return message;
}

TEST(StepEncoder, WritesTheBytesOfTheGeneratedClassWithoutACopy) {
  v1::StepRequest request = SmallStep();
  request.set_request_id("me");
  request.set_priority(v1::PRIORITY_LOW);
  const StepMessage message = MessageOf(request);
  const std::vector<WireChunk> chunks = EncodeStepRequest(message);
  EXPECT_EQ(Join(chunks), request.SerializeAsString());
  EXPECT_EQ(chunks.back().borrowed, message.layers[1].v.data);

  v1::StepStreamRequest streamed;
  *streamed.mutable_step() = request;
  EXPECT_EQ(Join(EncodeStepStreamRequest(message)),
            streamed.SerializeAsString());
}

TEST(StepEncoder, LeavesOutWhatGoesWithoutSaying) {
  v1::StepRequest request = SmallStep();
  request.mutable_layers()->RemoveLast();
  for (auto* tensors :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensors->RemoveLast();
  }
  StepMessage message = MessageOf(request);
  message.priority = v1::PRIORITY_NORMAL;
  request.clear_layers();
  EXPECT_EQ(Join(EncodeStepRequest(message)), request.SerializeAsString());
  message.layers[0].layer = 9;
  request.add_layers(9);
  EXPECT_EQ(Join(EncodeStepRequest(message)), request.SerializeAsString());
}

TEST(StepEncoder, EitherLayoutArrivesAsItWas) {
  // [1, 2 tokens, 2 heads, 2], seen as [1, H, S, D].
  const float rows[] = {1, 2, 3, 4, 5, 6, 7, 8};
  StepMessage message;
  StepTensors& layer = message.layers.emplace_back();
  layer.q = TensorView::Dense(rows, DType::kF32, Shape{1, 2, 2, 2});
  layer.q = layer.q.SwapAxes(1, 2);
  layer.k = layer.v = layer.q;
  for (const bool bshd : {true, false}) {
    layer.bshd = bshd;
    const std::vector<WireChunk> chunks = EncodeStepRequest(message);
    // Gathered only if it does not lie so.
    EXPECT_EQ(chunks.back().borrowed != nullptr, bshd);
    const std::string bytes = Join(chunks);
    v1::StepRequest sent;
    ASSERT_TRUE(sent.ParseFromString(bytes));
    const auto call = ReadStep(sent);
    ASSERT_TRUE(call.ok()) << call.status();
    const StepTensors& got = call->layers[0];
    EXPECT_EQ(got.bshd, bshd);
    const auto* values = reinterpret_cast<const float*>(got.q.data);
    // Head 1 of token 0, and head 0 of token 1.
    EXPECT_EQ(values[got.q.strides[1]], 3);
    EXPECT_EQ(values[got.q.strides[2]], 5);
  }
}

v1::StepResponse Answer() {
  v1::StepResponse response;
  response.set_request_id("me");
  response.set_epoch(2);
  response.set_step(3);
  response.set_length(6);
  response.mutable_report()->set_kernel("decode");
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 1, 2}, {1, 2, 3, 4},
                   response.add_output());
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 2, 2}, {5, 6, 7, 8},
                   response.add_output());
  response.mutable_output(1)->set_layout(v1::TENSOR_LAYOUT_BSHD);
  return response;
}

absl::StatusOr<StepResult> ReadAnswer(const std::string& bytes) {
  PieceStream stream(bytes, 5);
  return DecodeStepResponse(stream, static_cast<int64_t>(bytes.size()));
}

TEST(StepAnswer, ArrivesAndIsWrittenAsTheGeneratedClassWould) {
  const std::string bytes = Answer().SerializeAsString();
  auto result = ReadAnswer(bytes);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.length(), 6);
  EXPECT_EQ(result->header.report().kernel(), "decode");
  ASSERT_THAT(result->tensors, SizeIs(2));
  EXPECT_FALSE(result->tensors[0].bshd);
  EXPECT_TRUE(result->tensors[1].bshd);
  EXPECT_THAT(DimsOf(result->tensors[1].shape), ElementsAre(1, 1, 2, 2));
  const v1::StepResponse header = result->header;
  // Whoever computes them need not say what they are.
  for (ResponseTensor& tensor : result->tensors) tensor.field = 0;
  EXPECT_EQ(Join(EncodeStepResponse(header, std::move(result->tensors))),
            bytes);
}

TEST(StepAnswer, ThatContradictsItselfIsNamed) {
  v1::StepResponse response = Answer();
  response.mutable_output(1)->set_data("x");
  EXPECT_EQ(FieldOf(ReadAnswer(response.SerializeAsString()).status()),
            "output[1].data");
  response = Answer();
  response.mutable_output(0)->set_dtype(static_cast<v1::DataType>(99));
  EXPECT_EQ(FieldOf(ReadAnswer(response.SerializeAsString()).status()),
            "output[0].dtype");
}

TEST(StepAnswer, IsTheSameOnAStream) {
  auto result = ReadAnswer(Answer().SerializeAsString());
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string bytes = Join(WrapStepResponse(
      EncodeStepResponse(result->header, std::move(result->tensors))));
  v1::StepStreamResponse expected;
  *expected.mutable_response() = Answer();
  EXPECT_EQ(bytes, expected.SerializeAsString());

  PieceStream stream(bytes, 3);
  const auto message =
      ReadStreamMessage(stream, static_cast<int64_t>(bytes.size()),
                        v1::StepStreamResponse::descriptor());
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->part, v1::StepStreamResponse::kResponseFieldNumber);
  EXPECT_EQ(bytes.substr(static_cast<size_t>(message->body.offset)),
            Answer().SerializeAsString());

  v1::StepStreamResponse nothing;
  nothing.mutable_response();
  EXPECT_EQ(Join(WrapStepResponse(EncodeStepResponse({}, {}))),
            nothing.SerializeAsString());
}

}  // namespace
}  // namespace attn
