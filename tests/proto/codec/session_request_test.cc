// Step on the wire, towards the server, against the generated classes.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/session_codec.h"
#include "tests/proto/codec/allocation_counter.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

absl::StatusOr<StepCall> DecodeStepBytes(const std::string& bytes,
                                         int64_t max_payload = kRoomy,
                                         size_t piece_size = 7) {
  PieceStream stream(bytes, piece_size);
  return DecodeStepRequest(stream, static_cast<int64_t>(bytes.size()),
                           max_payload);
}

absl::StatusOr<StepCall> DecodeStreamBytes(const std::string& bytes,
                                           size_t piece_size = 7) {
  PieceStream stream(bytes, piece_size);
  return DecodeStepStreamRequest(stream, static_cast<int64_t>(bytes.size()),
                                 kRoomy);
}

std::string BadStepField(const v1::StepRequest& request) {
  return FieldOf(DecodeStepBytes(request.SerializeAsString()).status())
      .value_or("");
}

// Two tokens for layers 3 and 1: q [1, 2, 2, 2], k [1, 1, 2, 2], v
// [1, 1, 2, 3], all values different.
v1::StepRequest TwoLayerStep() {
  v1::StepRequest request;
  request.set_session_id("0123456789abcdef0123456789abcdef");
  request.set_epoch(uint64_t{1} << 63);
  request.set_step(7);
  request.set_position(int64_t{1} << 40);
  request.add_layers(3);
  request.add_layers(1);
  request.set_request_id("me");
  request.set_priority(v1::PRIORITY_HIGH);
  for (const float first : {100.0F, 200.0F}) {
    const auto values = [first](int count, float from) {
      std::vector<float> list;
      for (int i = 0; i < count; ++i) {
        list.push_back(first + from + static_cast<float>(i));
      }
      return list;
    };
    SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 2, 2}, values(8, 0),
                     request.add_q());
    SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 2, 2}, values(4, 20),
                     request.add_k());
    SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 2, 3}, values(6, 40),
                     request.add_v());
  }
  return request;
}

v1::StepStreamRequest StreamedStep() {
  v1::StepStreamRequest request;
  *request.mutable_step() = TwoLayerStep();
  return request;
}

TEST(StepRequest, EveryFieldArrivesWhereverItsBytesAreSplit) {
  const v1::StepRequest request = TwoLayerStep();
  for (const size_t piece : {1, 3, 64, 4096}) {
    const auto call =
        DecodeStepBytes(request.SerializeAsString(), kRoomy, piece);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->session_id, request.session_id());
    EXPECT_EQ(call->epoch, request.epoch());
    EXPECT_EQ(call->step, 7);
    EXPECT_EQ(call->position, request.position());
    EXPECT_EQ(call->request_id, "me");
    EXPECT_EQ(call->priority, v1::PRIORITY_HIGH);
    EXPECT_EQ(call->payload_bytes, 2 * (8 + 4 + 6) * 4);
    ASSERT_THAT(call->layers, SizeIs(2));
    for (int i = 0; i < 2; ++i) {
      const StepTensors& layer = call->layers[static_cast<size_t>(i)];
      EXPECT_EQ(layer.layer, request.layers(i));
      EXPECT_FALSE(layer.bshd);
      EXPECT_THAT(DimsOf(layer.v.shape), ElementsAre(1, 1, 2, 3));
      EXPECT_EQ(BytesOf(layer.q), request.q(i).data());
      EXPECT_EQ(BytesOf(layer.k), request.k(i).data());
      EXPECT_EQ(BytesOf(layer.v), request.v(i).data());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(layer.k.data) % 64, 0U);
    }
  }
}

TEST(StepRequest, WithoutLayersIsOfLayerZero) {
  v1::StepRequest request = TwoLayerStep();
  request.clear_layers();
  EXPECT_EQ(BadStepField(request), "q");
  for (auto* tensors :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensors->RemoveLast();
  }
  request.clear_priority();
  const auto call = DecodeStepBytes(request.SerializeAsString());
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_THAT(call->layers, SizeIs(1));
  EXPECT_EQ(call->layers[0].layer, 0);
  EXPECT_EQ(call->priority, v1::PRIORITY_NORMAL);
}

TEST(StepRequest, EachTensorHasItsOwnLayout) {
  v1::StepRequest request = TwoLayerStep();
  request.mutable_q(1)->set_layout(v1::TENSOR_LAYOUT_BSHD);
  v1::Tensor* k = request.mutable_k(0);
  k->set_layout(v1::TENSOR_LAYOUT_BSHD);
  k->set_shape(1, 2);
  k->set_shape(2, 1);
  const auto call = DecodeStepBytes(request.SerializeAsString());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->layers[0].bshd);
  EXPECT_TRUE(call->layers[1].bshd);
  // [B, S, H, D], seen as [B, H, S, D].
  EXPECT_THAT(call->layers[1].q.strides, ElementsAre(8, 2, 4, 1));
  EXPECT_THAT(DimsOf(call->layers[0].k.shape), ElementsAre(1, 1, 2, 2));
}

TEST(StepRequest, WhatCannotBeMeantIsNamed) {
  const struct {
    std::string field;
    std::function<void(v1::StepRequest&)> change;
  } rows[] = {
      {"position", [](auto& r) { r.set_position(-1); }},
      {"layers[1]", [](auto& r) { r.set_layers(1, 3); }},
      {"layers[0]", [](auto& r) { r.set_layers(0, -1); }},
      {"layers[1]", [](auto& r) { r.set_layers(1, 1024); }},
      {"q", [](auto& r) { r.add_layers(5); }},
      {"q", [](auto& r) { r.mutable_q()->RemoveLast(); }},
      {"k", [](auto& r) { *r.add_k() = r.k(0); }},
      {"v", [](auto& r) { r.clear_v(); }},
      {"q[1].shape", [](auto& r) { r.mutable_q(1)->add_shape(1); }},
      {"k[0].shape", [](auto& r) { r.mutable_k(0)->set_shape(0, 2); }},
      {"v[1].shape", [](auto& r) { r.mutable_v(1)->set_shape(2, -1); }},
      {"q[1].dtype", [](auto& r) { r.mutable_q(1)->clear_dtype(); }},
      {"k[1].data", [](auto& r) { r.mutable_k(1)->set_data("x"); }},
      {"v[0].layout",
       [](auto& r) {
         r.mutable_v(0)->set_layout(static_cast<v1::TensorLayout>(9));
       }},
      {"request_id", [](auto& r) { r.set_request_id("a\nb"); }},
      {"priority",
       [](auto& r) { r.set_priority(static_cast<v1::Priority>(9)); }},
  };
  for (const auto& row : rows) {
    v1::StepRequest request = TwoLayerStep();
    row.change(request);
    if (row.field == "k[0].shape") {
      request.mutable_k(0)->set_shape(2, 1);  // As many elements.
    }
    EXPECT_EQ(BadStepField(request), row.field);
  }
  EXPECT_EQ(BadStepField(v1::StepRequest()), "q");
}

TEST(StepRequest, TakesFloatsAloneAndDoublesOnlyToKeep) {
  using Pair = std::pair<v1::DataType, std::string>;
  for (const auto& [dtype, got] :
       {Pair(v1::DATA_TYPE_I32, "I32"), Pair(v1::DATA_TYPE_BOOL, "BOOL")}) {
    v1::StepRequest request = TwoLayerStep();
    const int64_t size = dtype == v1::DATA_TYPE_I32 ? 4 : 1;
    request.mutable_k(1)->set_dtype(dtype);
    request.mutable_k(1)->set_data(std::string(4 * size, '\0'));
    EXPECT_EQ(BadStepField(request), "k[1].dtype");
    EXPECT_THAT(
        std::string(
            DecodeStepBytes(request.SerializeAsString()).status().message()),
        HasSubstr(got));
  }
  v1::StepRequest request = TwoLayerStep();
  request.mutable_v(1)->set_dtype(v1::DATA_TYPE_F64);
  request.mutable_v(1)->set_data(std::string(6 * 8, '\0'));
  EXPECT_EQ(BadStepField(request), "");
  request.mutable_q(0)->set_dtype(v1::DATA_TYPE_F64);
  request.mutable_q(0)->set_data(std::string(8 * 8, '\0'));
  EXPECT_EQ(BadStepField(request), "q[0].dtype");
}

TEST(StepRequest, AllTensorsHaveAsManyTokens) {
  const struct {
    const char* field;
    v1::Tensor* (*tensor)(v1::StepRequest&);
    std::vector<int64_t> shape;
  } rows[] = {
      {"q[1].shape", [](auto& r) { return r.mutable_q(1); }, {1, 2, 3, 2}},
      {"k[0].shape", [](auto& r) { return r.mutable_k(0); }, {1, 1, 1, 2}},
      {"v[1].shape", [](auto& r) { return r.mutable_v(1); }, {1, 1, 0, 3}},
  };
  for (const auto& row : rows) {
    v1::StepRequest request = TwoLayerStep();
    const auto count =
        static_cast<size_t>(row.shape[1] * row.shape[2] * row.shape[3]);
    SetTensor<float>(v1::DATA_TYPE_F32, row.shape, std::vector<float>(count),
                     row.tensor(request));
    EXPECT_EQ(BadStepField(request), row.field);
  }
  // In the other layout it is another axis that counts them.
  v1::StepRequest request = TwoLayerStep();
  request.mutable_k(0)->set_layout(v1::TENSOR_LAYOUT_BSHD);
  EXPECT_EQ(BadStepField(request), "k[0].shape");

  request.clear_layers();
  for (auto* tensors :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensors->Clear();
    SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 0, 4}, {}, tensors->Add());
  }
  EXPECT_EQ(BadStepField(request), "q[0].shape");
}

TEST(StepRequest, ThatIsCutShortIsAnErrorOrAShorterMessage) {
  const std::string bytes = TwoLayerStep().SerializeAsString();
  const std::string streamed = StreamedStep().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    v1::StepRequest parsed;
    const bool whole = parsed.ParseFromString(cut);
    EXPECT_TRUE(whole || !DecodeStepBytes(cut).ok()) << size;
  }
  for (size_t size = 0; size < streamed.size(); ++size) {
    EXPECT_FALSE(DecodeStreamBytes(streamed.substr(0, size)).ok()) << size;
  }
}

// What is taken with a byte of it changed can be read to its last byte.
TEST(StepRequest, WithAnyByteChangedIsTakenWholeOrRefused) {
  // The generated parser prints each string that is not UTF-8.
  const google::protobuf::LogSilencer quiet;
  const std::string bytes = StreamedStep().SerializeAsString();
  int taken = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x08, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const auto call = DecodeStreamBytes(changed);
      if (!call.ok()) {
        EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ++taken;
      for (const StepTensors& layer : call->layers) {
        for (const TensorView* view : {&layer.q, &layer.k, &layer.v}) {
          EXPECT_EQ(BytesOf(*view).size(),
                    static_cast<size_t>(view->byte_count()));
        }
      }
    }
  }
  // Those in payloads at the least.
  EXPECT_GE(taken, 4 * 2 * (8 + 4 + 6) * 4);
}

TEST(StepRequest, AClaimTakesNoMemoryBeforeItIsChecked) {
  std::string tensor;
  AppendDelimiter(v1::Tensor::kDataFieldNumber, (1U << 31) - 1, tensor);
  std::string bytes;
  AppendDelimiter(v1::StepRequest::kVFieldNumber, tensor.size(), bytes);
  bytes += tensor;
  EXPECT_TRUE(DecodeStepBytes(TwoLayerStep().SerializeAsString()).ok());
  const size_t before = AllocatedBytes();
  EXPECT_EQ(FieldOf(DecodeStepBytes(bytes).status()).value_or(""), "v[0]");
  EXPECT_LT(AllocatedBytes() - before, 65536U);
}

TEST(StepRequest, APayloadIsCopiedOnce) {
  v1::StepStreamRequest request = StreamedStep();
  for (int i = 0; i < 2; ++i) {
    SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 2, 1 << 18},
                     std::vector<float>(1 << 20, 1),
                     request.mutable_step()->mutable_q(i));
  }
  const std::string bytes = request.SerializeAsString();
  EXPECT_TRUE(DecodeStreamBytes(bytes, 16384).ok());
  PieceStream stream(bytes, 16384);
  // Payloads go to aligned memory, which is not of operator new.
  const size_t before = AllocatedBytes();
  const auto call = DecodeStepStreamRequest(
      stream, static_cast<int64_t>(bytes.size()), kRoomy);
  EXPECT_LT(AllocatedBytes() - before, 65536U);
  EXPECT_TRUE(call.ok());
}

TEST(StepRequest, PayloadsBeyondTheLimitAreRefused) {
  const std::string bytes = TwoLayerStep().SerializeAsString();
  EXPECT_TRUE(DecodeStepBytes(bytes, 144).ok());
  EXPECT_EQ(DecodeStepBytes(bytes, 143).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(StepRequest, HasRoomForEveryLayerOfASession) {
  v1::StepRequest request;
  for (int layer = 0; layer < 1024; ++layer) {
    request.add_layers(1023 - layer);
    for (v1::Tensor* tensor :
         {request.add_q(), request.add_k(), request.add_v()}) {
      SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 1, 1},
                       {static_cast<float>(layer)}, tensor);
    }
  }
  const auto call =
      DecodeStepBytes(request.SerializeAsString(), kRoomy, 1 << 20);
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_THAT(call->layers, SizeIs(1024));
  EXPECT_EQ(call->layers[1023].layer, 0);
  EXPECT_EQ(BytesOf(call->layers[1023].v), request.v(1023).data());
  *request.add_v() = request.v(0);
  EXPECT_EQ(BadStepField(request), "v");
}

TEST(StepStreamRequest, IsItsStepWhereverTheBytesAreSplit) {
  const std::string bytes = StreamedStep().SerializeAsString();
  // Field 99 is a varint that nobody knows.
  const std::string unknown = "\x98\x06\x05";
  for (const size_t piece : {1, 2, 5, 64, 4096}) {
    for (const std::string& whole : {bytes, unknown + bytes, bytes + unknown}) {
      const auto call = DecodeStreamBytes(whole, piece);
      ASSERT_TRUE(call.ok()) << call.status();
      EXPECT_EQ(call->step, 7);
      EXPECT_EQ(BytesOf(call->layers[1].v), TwoLayerStep().v(1).data());
      EXPECT_EQ(call->digest,
                DecodeStepBytes(TwoLayerStep().SerializeAsString())->digest);
    }
  }
}

TEST(StepStreamRequest, HasOneStep) {
  const std::string bytes = StreamedStep().SerializeAsString();
  EXPECT_EQ(FieldOf(DecodeStreamBytes("").status()), "step");
  EXPECT_EQ(FieldOf(DecodeStreamBytes(bytes + bytes).status()), "step");
  EXPECT_EQ(FieldOf(DecodeStreamBytes(bytes + "\x0f").status()),
            "StepStreamRequest");
  for (const int64_t size : {int64_t{-1}, int64_t{1} << 31}) {
    PieceStream stream("", 1);
    EXPECT_EQ(DecodeStepStreamRequest(stream, size, kRoomy).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace attn
