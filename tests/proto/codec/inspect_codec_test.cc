#include "proto/codec/inspect_codec.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

absl::StatusOr<InspectCall> DecodeBytes(const std::string& bytes) {
  PieceStream stream(bytes, 7);
  return DecodeInspectRequest(stream, static_cast<int64_t>(bytes.size()),
                              kRoomy);
}

class InspectCodecTest : public ::testing::Test {
 protected:
  InspectCodecTest() {
    const TensorView tensor =
        TensorView::Dense(values_.data(), DType::kF32, {1, 2, 3, 4});
    message_.args.q = tensor;
    message_.args.k = tensor;
    message_.args.v = tensor;
    message_.args.d_output = tensor;
    message_.question.views.gradient_weight = true;
    message_.question.window.mutable_key()->set_begin(1);
    v1::InspectTiles tiles;
    tiles.set_query_tile(2);
    message_.question.tiles = tiles;
    message_.question.sweep_temperatures = {0.5, 2};
  }

  const std::vector<float> values_ = std::vector<float>(24, 1.5F);
  InspectMessage message_;
};

TEST_F(InspectCodecTest, WhatIsWrittenIsRead) {
  for (const bool bshd : {false, true}) {
    message_.bshd = bshd;
    const auto call = DecodeBytes(Join(EncodeInspectRequest(message_)));
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_TRUE(call->question.views.gradient_weight);
    EXPECT_FALSE(call->question.views.weights);
    EXPECT_EQ(call->question.window.key().begin(), 1);
    ASSERT_TRUE(call->question.tiles.has_value());
    EXPECT_EQ(call->question.tiles->query_tile(), 2);
    EXPECT_EQ(call->question.sweep_temperatures,
              message_.question.sweep_temperatures);
    EXPECT_EQ(call->args.d_output.shape, Shape({1, 2, 3, 4}));
    EXPECT_EQ(call->bshd, bshd);
  }
}

TEST_F(InspectCodecTest, TheBytesAreThoseOfTheGeneratedCode) {
  const std::string bytes = Join(EncodeInspectRequest(message_));
  v1::InspectRequest request;
  ASSERT_TRUE(request.ParseFromString(bytes));
  EXPECT_EQ(request.SerializeAsString(), bytes);
  EXPECT_EQ(request.views(0), v1::INSPECT_VIEW_GRADIENT_WEIGHT);
}

TEST_F(InspectCodecTest, AnEmptyQuestionIsNotWritten) {
  message_.question = {};
  v1::InspectRequest request;
  ASSERT_TRUE(request.ParseFromString(Join(EncodeInspectRequest(message_))));
  EXPECT_FALSE(request.has_window());
  EXPECT_FALSE(request.has_tiles());
  EXPECT_EQ(request.views_size(), 0);
}

TEST_F(InspectCodecTest, TheGradientViewNeedsItsCotangent) {
  const TensorView none;
  message_.args.d_output = none;
  EXPECT_EQ(FieldOf(DecodeBytes(Join(EncodeInspectRequest(message_))).status()),
            "d_output");
  message_.question.views = {};
  EXPECT_TRUE(DecodeBytes(Join(EncodeInspectRequest(message_))).ok());
}

TEST_F(InspectCodecTest, AtMostSixtyFourTemperaturesAreSwept) {
  message_.question.sweep_temperatures.assign(64, 1);
  EXPECT_TRUE(DecodeBytes(Join(EncodeInspectRequest(message_))).ok());
  message_.question.sweep_temperatures.push_back(1);
  EXPECT_EQ(FieldOf(DecodeBytes(Join(EncodeInspectRequest(message_))).status()),
            "sweep_temperatures");
}

}  // namespace
}  // namespace attn
