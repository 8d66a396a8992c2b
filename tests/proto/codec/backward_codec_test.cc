// AttendBackward on the wire, against the bytes of the generated classes.
#include "proto/codec/backward_codec.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/chunk_writer.h"
#include "tests/proto/codec/allocation_counter.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Request = v1::AttendBackwardRequest;
using Response = v1::AttendBackwardResponse;

absl::StatusOr<BackwardCall> DecodeBytes(const std::string& bytes,
                                         int64_t max_payload = kRoomy,
                                         size_t piece_size = 7) {
  PieceStream stream(bytes, piece_size);
  return DecodeBackwardRequest(stream, static_cast<int64_t>(bytes.size()),
                               max_payload);
}

absl::StatusOr<BackwardCall> DecodeMessage(const Request& request) {
  return DecodeBytes(request.SerializeAsString());
}

std::string BadFieldOf(const Request& request) {
  return FieldOf(DecodeMessage(request).status()).value_or("");
}

// q [1, 2, 2, 2], k [1, 1, 3, 2], v [1, 1, 3, 1]; inputs F32, BOOL, F64;
// d_output [1, 2, 2, 1] and d_lse [1, 2, 2].
Request FullRequest() {
  const v1::AttendRequest forward = SmallRequest();
  Request request;
  *request.mutable_q() = forward.q();
  *request.mutable_k() = forward.k();
  *request.mutable_v() = forward.v();
  SetTensor<float>(v1::DATA_TYPE_F32, {2}, {1, 2}, request.add_inputs());
  SetTensor<uint8_t>(v1::DATA_TYPE_BOOL, {3}, {1, 0, 1}, request.add_inputs());
  SetTensor<double>(v1::DATA_TYPE_F64, {1}, {-1}, request.add_inputs());
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 2, 1}, {1, -2, 3, -4},
                   request.mutable_d_output());
  SetTensor<double>(v1::DATA_TYPE_F64, {1, 2, 2}, {5, 6, 7, 8},
                    request.mutable_d_lse());
  request.add_q_lengths(2);
  request.add_kv_lengths(3);
  request.set_request_id("me");
  return request;
}

TEST(BackwardRequest, EveryFieldArrives) {
  const Request request = FullRequest();
  const auto call = DecodeMessage(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(BytesOf(call->args.q), request.q().data());
  EXPECT_EQ(BytesOf(call->args.k), request.k().data());
  EXPECT_EQ(BytesOf(call->args.v), request.v().data());
  ASSERT_EQ(call->args.inputs.size(), 3U);
  EXPECT_EQ(call->args.inputs[1].dtype, DType::kBool);
  EXPECT_THAT(call->args.q_lengths, ElementsAre(2));
  EXPECT_THAT(call->args.kv_lengths, ElementsAre(3));
  EXPECT_EQ(call->request_id, "me");
  EXPECT_TRUE(call->wanted.from_output);
  EXPECT_TRUE(call->wanted.from_lse);
  EXPECT_EQ(BytesOf(call->cotangents.output), request.d_output().data());
  EXPECT_EQ(BytesOf(call->cotangents.lse), request.d_lse().data());
  EXPECT_EQ(call->cotangents.lse.dtype, DType::kF64);
}

TEST(BackwardRequest, WhoNamesNoGradientWantsAllThatThereAre) {
  const auto call = DecodeMessage(FullRequest());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->wanted.q && call->wanted.k && call->wanted.v);
  // A BOOL has no gradient.
  EXPECT_THAT(call->wanted.inputs, ElementsAre(0, 2));
}

TEST(BackwardRequest, NamedGradientsAreTheOnlyOnes) {
  Request request = FullRequest();
  request.add_gradients(v1::GRADIENT_K);
  request.add_gradients(v1::GRADIENT_INPUTS);
  for (const uint32_t index : {2, 0, 2}) request.add_gradient_inputs(index);
  const auto call = DecodeMessage(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->wanted.k);
  EXPECT_FALSE(call->wanted.q || call->wanted.v);
  EXPECT_THAT(call->wanted.inputs, ElementsAre(0, 2));

  request.clear_gradient_inputs();
  request.clear_gradients();
  request.add_gradients(v1::GRADIENT_V);
  const auto values = DecodeMessage(request);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_TRUE(values->wanted.v);
  EXPECT_THAT(values->wanted.inputs, IsEmpty());
}

TEST(BackwardRequest, EachTensorHasItsOwnLayout) {
  Request request = FullRequest();
  request.mutable_k()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  request.mutable_d_output()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  const auto call = DecodeMessage(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->bshd);
  EXPECT_TRUE(call->k_bshd);
  EXPECT_FALSE(call->v_bshd);
  EXPECT_THAT(DimsOf(call->args.k.shape), ElementsAre(1, 3, 1, 2));
  // [B, S, H, D] = [1, 2, 2, 1], seen as [B, H, S, D].
  EXPECT_THAT(call->cotangents.output.strides, ElementsAre(4, 1, 2, 1));
}

TEST(BackwardRequest, WhatCannotBeMeantIsNamed) {
  Request request = FullRequest();
  request.clear_d_output();
  EXPECT_EQ(BadFieldOf(request), "");
  request.clear_d_lse();
  EXPECT_EQ(BadFieldOf(request), "d_output");

  request = FullRequest();
  request.clear_v();
  EXPECT_EQ(BadFieldOf(request), "v");

  request = FullRequest();
  request.add_gradients(v1::GRADIENT_UNSPECIFIED);
  EXPECT_EQ(BadFieldOf(request), "gradients[0]");
  request.set_gradients(0, static_cast<v1::Gradient>(99));
  EXPECT_EQ(BadFieldOf(request), "gradients[0]");
  // Indices of inputs whose gradients are not asked for.
  request.set_gradients(0, v1::GRADIENT_Q);
  request.add_gradient_inputs(0);
  EXPECT_EQ(BadFieldOf(request), "gradient_inputs");

  request = FullRequest();
  request.add_gradient_inputs(0);
  request.add_gradient_inputs(3);
  EXPECT_EQ(BadFieldOf(request), "gradient_inputs[1]");
  request.set_gradient_inputs(1, 1);
  EXPECT_THAT(std::string(DecodeMessage(request).status().message()),
              HasSubstr("BOOL"));

  request = FullRequest();
  request.mutable_d_lse()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  EXPECT_EQ(BadFieldOf(request), "d_lse.shape");
  request = FullRequest();
  request.mutable_d_output()->add_shape(2);
  EXPECT_EQ(BadFieldOf(request), "d_output.data");
  request = FullRequest();
  request.set_request_id("a\nb");
  EXPECT_EQ(BadFieldOf(request), "request_id");
}

TEST(BackwardRequest, EveryTruncationIsAnErrorOrAShorterMessage) {
  const std::string bytes = FullRequest().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    Request parsed;
    if (parsed.ParseFromString(cut)) continue;
    EXPECT_FALSE(DecodeBytes(cut).ok()) << size;
  }
}

TEST(BackwardRequest, AClaimTakesNoMemoryBeforeItIsChecked) {
  std::string tensor;
  AppendDelimiter(v1::Tensor::kDataFieldNumber, (1U << 31) - 1, tensor);
  std::string bytes;
  AppendDelimiter(Request::kDOutputFieldNumber, tensor.size(), bytes);
  bytes += tensor;
  EXPECT_TRUE(DecodeMessage(FullRequest()).ok());
  const size_t before = AllocatedBytes();
  EXPECT_FALSE(DecodeBytes(bytes).ok());
  EXPECT_LT(AllocatedBytes() - before, 65536U);
}

TEST(BackwardRequest, PayloadsBeyondTheLimitAreRefused) {
  const std::string bytes = FullRequest().SerializeAsString();
  const auto whole = DecodeBytes(bytes);
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(DecodeBytes(bytes, whole->payload_bytes).ok());
  EXPECT_EQ(DecodeBytes(bytes, whole->payload_bytes - 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(BackwardEncoder, WritesTheBytesOfTheGeneratedClass) {
  Request request = FullRequest();
  request.add_gradients(v1::GRADIENT_Q);
  request.add_gradients(v1::GRADIENT_INPUTS);
  request.add_gradient_inputs(2);
  request.mutable_spec()->mutable_score()->mutable_dot()->set_scale(0);
  request.mutable_spec()->mutable_normalizer()->mutable_softmax();
  for (v1::Tensor* tensor : {request.mutable_q(), request.mutable_k(),
                             request.mutable_v(), request.mutable_d_output()}) {
    tensor->set_layout(v1::TENSOR_LAYOUT_BSHD);
  }
  const auto call = DecodeMessage(request);
  ASSERT_TRUE(call.ok()) << call.status();
  BackwardMessage message;
  message.spec = call->spec;
  message.args = call->args;
  message.bshd = call->bshd;
  message.request_id = call->request_id;
  message.wanted = call->wanted;
  message.cotangents = call->cotangents;
  EXPECT_EQ(Join(EncodeBackwardRequest(message)), request.SerializeAsString());
}

ResponseTensor MakeTensor(int field, const Shape& shape,
                          const std::vector<float>& values) {
  ResponseTensor tensor;
  tensor.field = field;
  tensor.shape = shape;
  tensor.data = AlignedBuffer(values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

Response Header() {
  Response header;
  header.mutable_report()->set_kernel("backward");
  header.add_gradient_inputs(1);
  header.add_gradient_inputs(4);
  header.set_d_scale(-2);
  header.add_d_temperatures(0.5);
  return header;
}

std::vector<WireChunk> EncodedResponse() {
  std::vector<ResponseTensor> tensors;
  tensors.push_back(MakeTensor(Response::kDInputsFieldNumber, {1}, {1}));
  tensors.push_back(MakeTensor(Response::kDInputsFieldNumber, {2}, {2, 3}));
  tensors.push_back(
      MakeTensor(Response::kDQFieldNumber, {1, 2, 1, 2}, {4, 5, 6, 7}));
  tensors.back().bshd = true;
  return EncodeBackwardResponse(Header(), std::move(tensors));
}

TEST(BackwardResponse, IsWrittenAsTheGeneratedClassWritesIt) {
  Response expected = Header();
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 1, 2}, {4, 5, 6, 7},
                   expected.mutable_d_q());
  expected.mutable_d_q()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  SetTensor<float>(v1::DATA_TYPE_F32, {1}, {1}, expected.add_d_inputs());
  SetTensor<float>(v1::DATA_TYPE_F32, {2}, {2, 3}, expected.add_d_inputs());
  EXPECT_EQ(Join(EncodedResponse()), expected.SerializeAsString());
}

TEST(BackwardResponse, GradientsOfInputsAreFoundByTheInputsIndex) {
  const std::string bytes = Join(EncodedResponse());
  PieceStream stream(bytes, 3);
  const auto result =
      DecodeBackwardResponse(stream, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.SerializeAsString(), Header().SerializeAsString());
  EXPECT_EQ(FindInputGradient(*result, 0), nullptr);
  const ResponseTensor* last = FindInputGradient(*result, 4);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(DimsOf(last->shape), (std::vector<int64_t>{2}));
  ASSERT_NE(result->Find(Response::kDQFieldNumber), nullptr);
  EXPECT_TRUE(result->Find(Response::kDQFieldNumber)->bshd);
  EXPECT_EQ(result->Find(Response::kDKFieldNumber), nullptr);
}

TEST(BackwardResponse, AnInputGradientWithoutAnIndexIsRefused) {
  Response response = Header();
  SetTensor<float>(v1::DATA_TYPE_F32, {1}, {1}, response.add_d_inputs());
  const std::string bytes = response.SerializeAsString();
  PieceStream stream(bytes, 3);
  const auto result =
      DecodeBackwardResponse(stream, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(FieldOf(result.status()).value_or(""), "d_inputs");
}

}  // namespace
}  // namespace attn
