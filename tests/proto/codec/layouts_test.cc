// Ragged calls and packed q, k and v on the wire.
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/spec_codec.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::ElementsAre;

// Element (b, h, s, d) of a view.
float At(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    offset += index[axis] * view.strides[axis];
  }
  return reinterpret_cast<const float*>(view.data)[offset];
}

std::vector<float> Counted(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

v1::AttendRequest Packed(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  v1::AttendRequest request;
  SetTensor<float>(v1::DATA_TYPE_F32, shape, Counted(count),
                   request.mutable_qkv());
  return request;
}

TEST(PackedQkv, ThirdsAreViewsOfTheOnePayload) {
  const auto call = Decode(Packed({2, 5, 3, 4, 6}));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->bshd);
  ASSERT_EQ(call->storage.size(), 1U);
  const TensorView* parts[] = {&call->args.q, &call->args.k, &call->args.v};
  for (int64_t part = 0; part < 3; ++part) {
    const TensorView& view = *parts[part];
    EXPECT_EQ(DimsOf(view.shape), (std::vector<int64_t>{2, 4, 5, 6}));
    EXPECT_GE(view.data, call->storage[0].data());
    // (b, s, part, h, d) of the row-major whole.
    EXPECT_EQ(At(view, {1, 2, 3, 4}),
              static_cast<float>((((1 * 5 + 3) * 3 + part) * 4 + 2) * 6 + 4));
  }
}

TEST(PackedQkv, HeadsOfQStandBeforeThoseOfKAndV) {
  v1::AttendRequest request = Packed({2, 5, 8, 6});
  request.set_packed_kv_heads(2);
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(DimsOf(call->args.q.shape), (std::vector<int64_t>{2, 4, 5, 6}));
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{2, 2, 5, 6}));
  EXPECT_EQ(DimsOf(call->args.v.shape), (std::vector<int64_t>{2, 2, 5, 6}));
  const auto element = [](int64_t head) {
    return static_cast<float>(((1 * 5 + 3) * 8 + head) * 6 + 4);
  };
  EXPECT_EQ(At(call->args.q, {1, 3, 3, 4}), element(3));
  EXPECT_EQ(At(call->args.k, {1, 1, 3, 4}), element(5));
  EXPECT_EQ(At(call->args.v, {1, 0, 3, 4}), element(6));
}

TEST(PackedQkv, MistakesAreNamed) {
  v1::AttendRequest beside = SmallRequest();
  *beside.mutable_qkv() = Packed({1, 1, 3, 1, 1}).qkv();
  EXPECT_EQ(BadField(beside), "q");
  v1::AttendRequest k_alone = Packed({1, 1, 3, 1, 1});
  *k_alone.mutable_k() = SmallRequest().k();
  EXPECT_EQ(BadField(k_alone), "k");
  EXPECT_EQ(BadField(Packed({1, 1, 4, 1, 1})), "qkv.shape");
  EXPECT_EQ(BadField(Packed({3, 1, 1})), "qkv.shape");
  EXPECT_EQ(BadField(Packed({1, 1, 3, 1})), "packed_kv_heads");
  for (const int64_t heads : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
    v1::AttendRequest request = Packed({1, 1, 4, 1});
    request.set_packed_kv_heads(heads);
    EXPECT_EQ(BadField(request), "packed_kv_heads") << heads;
  }
  v1::AttendRequest thirds = Packed({1, 1, 3, 1, 1});
  thirds.set_packed_kv_heads(1);
  EXPECT_EQ(BadField(thirds), "packed_kv_heads");
  v1::AttendRequest no_qkv = SmallRequest();
  no_qkv.set_packed_kv_heads(1);
  EXPECT_EQ(BadField(no_qkv), "packed_kv_heads");
  v1::AttendRequest layout = Packed({1, 1, 3, 1});
  layout.mutable_qkv()->set_layout(v1::TENSOR_LAYOUT_BHSD);
  EXPECT_EQ(BadField(layout), "qkv.layout");
  v1::AttendRequest ragged = Packed({1, 1, 3, 1, 1});
  ragged.add_q_offsets(0);
  EXPECT_EQ(BadField(ragged), "q_offsets");
  ragged.clear_q_offsets();
  ragged.add_kv_offsets(0);
  EXPECT_EQ(BadField(ragged), "kv_offsets");
}

TEST(PackedQkv, ClientsWriteWhatServersRead) {
  const std::vector<float> values = Counted(2 * 5 * 8 * 6);
  AttendMessage message;
  message.qkv = TensorView::Dense(values.data(), DType::kF32, {2, 5, 8, 6});
  message.packed_kv_heads = 2;
  const auto call = Decode(Join(EncodeAttendRequest(message)));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{2, 2, 5, 6}));
  const auto plan = DecodePlanRequest(EncodePlanRequest(message));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->args.q.strides, call->args.q.strides);
  EXPECT_EQ(plan->args.q.data, nullptr);
}

TEST(RaggedRequest, OffsetsArriveBothWays) {
  const std::vector<float> values = Counted(3 * 2 * 4);
  AttendMessage message;
  message.args.q = TensorView::Dense(values.data(), DType::kF32, {3, 2, 4});
  message.args.k = message.args.q;
  message.args.v = message.args.q;
  message.args.q_offsets = {0, 1, 3};
  message.args.kv_offsets = {0, 3, 3};
  const auto call = Decode(Join(EncodeAttendRequest(message)));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->args.q_offsets, ElementsAre(0, 1, 3));
  EXPECT_THAT(call->args.kv_offsets, ElementsAre(0, 3, 3));
  EXPECT_EQ(DimsOf(call->args.q.shape), (std::vector<int64_t>{3, 2, 4}));
  const auto plan = DecodePlanRequest(EncodePlanRequest(message));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->args.kv_offsets, ElementsAre(0, 3, 3));
}

TEST(QuantizedRequest, TheSpecSaysHowIntegersAreMeant) {
  AttendMessage message;
  message.spec.kv_quantization =
      KvQuantization{QuantizationGranularity::kPerHead, 3, 4};
  const v1::AttentionSpec spec = EncodeSpec(message.spec);
  const auto decoded = DecodeSpec(spec);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, message.spec);
  v1::AttendRequest request = SmallRequest();
  *request.mutable_spec() = spec;
  request.mutable_spec()->mutable_kv_quantization()->clear_granularity();
  EXPECT_EQ(BadField(request), "spec.kv_quantization.granularity");
  *request.mutable_spec() = spec;
  request.mutable_spec()->mutable_kv_quantization()->clear_value_scale();
  EXPECT_EQ(BadField(request), "spec.kv_quantization.value_scale");
}

}  // namespace
}  // namespace attn
