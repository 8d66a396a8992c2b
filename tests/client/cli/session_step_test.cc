// New tokens of `attn session step`, without a server.
#include "client/cli/session_step.h"

#include <cmath>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/schema.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

v1::SessionInfo TwoLayerSession() {
  v1::SessionInfo session;
  session.set_epoch(4);
  session.set_next_step(9);
  session.add_lengths(16);
  session.add_lengths(12);
  session.set_q_heads(4);
  session.set_kv_heads(2);
  session.set_q_dim(64);
  session.set_k_dim(64);
  session.set_v_dim(32);
  return session;
}

StepFlags DrawFlags(uint64_t seed) {
  StepFlags flags;
  flags.random = 128;
  flags.seed = seed;
  return flags;
}

std::string BytesOfRows(const HostTensor& rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.byte_count()};
}

std::string DrawnQ(const StepFlags& flags, int64_t position) {
  const auto rows = DrawTokenRows(flags, TwoLayerSession(), position);
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? BytesOfRows(rows->front().q) : "";
}

TEST(DrawTokenRows, GivesTheSameForTheSameSeedAndPosition) {
  EXPECT_EQ(DrawnQ(DrawFlags(7), 3), DrawnQ(DrawFlags(7), 3));
  std::set<std::string> drawn;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
    for (const int64_t position : {int64_t{0}, int64_t{3}, int64_t{1} << 33}) {
      drawn.insert(DrawnQ(DrawFlags(seed), position));
    }
  }
  EXPECT_EQ(drawn.size(), 9U);
}

// Of n uniform values in [-1, 1) the mean is within 5 / sqrt(3 n) of 0 and that
// of the squares near 1/3; by chance in one of a million seeds not.
TEST(DrawTokenRows, DrawsUniformlyBetweenMinusOneAndOne) {
  StepFlags flags = DrawFlags(1);
  flags.layers = {0, 1};
  const auto rows = DrawTokenRows(flags, TwoLayerSession(), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_NE(BytesOfRows(rows->at(0).k), BytesOfRows(rows->at(1).k));
  double sum = 0;
  double squares = 0;
  const auto values = rows->at(1).q.values<float>();
  const auto count = static_cast<double>(values.size());
  for (const float value : values) {
    EXPECT_LE(std::abs(value), 1);
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_EQ(count, 4 * 128 * 64);
  EXPECT_LT(std::abs(sum / count), 5 / std::sqrt(3 * count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.01);
}

TEST(DrawTokenRows, HasTheShapesAndTheTypeThatAreWanted) {
  StepFlags flags = DrawFlags(1);
  flags.input.dtype = "f16";
  const auto rows = DrawTokenRows(flags, TwoLayerSession(), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->front().q.shape(), (Shape{1, 4, 128, 64}));
  EXPECT_EQ(rows->front().k.shape(), (Shape{1, 2, 128, 64}));
  EXPECT_EQ(rows->front().v.shape(), (Shape{1, 2, 128, 32}));
  EXPECT_EQ(rows->front().v.dtype(), DType::kF16);
  flags.random = int64_t{1} << 62;
  EXPECT_THAT(
      std::string(
          DrawTokenRows(flags, TwoLayerSession(), 0).status().message()),
      HasSubstr("--random"));
}

TEST(MakeStep, TakesWhatIsAbsentFromTheSession) {
  StepFlags flags = DrawFlags(1);
  flags.layers = {1};
  EXPECT_TRUE(NeedsSession(flags));
  EXPECT_EQ(PositionOf(flags, TwoLayerSession()).value_or(-1), 12);
  const auto rows = DrawTokenRows(flags, TwoLayerSession(), 12);
  ASSERT_TRUE(rows.ok()) << rows.status();
  StepMessage message = MakeStep(flags, "5e55", TwoLayerSession(), 12, *rows);
  EXPECT_EQ(message.session_id, "5e55");
  EXPECT_EQ(message.epoch, 4);
  EXPECT_EQ(message.step, 9);
  EXPECT_EQ(message.position, 12);
  ASSERT_EQ(message.layers.size(), 1U);
  EXPECT_EQ(message.layers[0].layer, 1);
  EXPECT_EQ(message.layers[0].k.data, rows->front().k.data());

  flags.epoch = 5;
  flags.step = 0;
  flags.position = 0;
  flags.info.request_id = "me";
  flags.info.priority = "low";
  EXPECT_EQ(PositionOf(flags, TwoLayerSession()).value_or(-1), 0);
  message = MakeStep(flags, "5e55", TwoLayerSession(), 0, *rows);
  EXPECT_EQ(message.epoch, 5);
  EXPECT_EQ(message.step, 0);
  EXPECT_EQ(message.request_id, "me");
  EXPECT_EQ(message.priority, v1::PRIORITY_LOW);
  EXPECT_TRUE(NeedsSession(flags));
  flags.random = 0;
  EXPECT_FALSE(NeedsSession(flags));
}

TEST(PositionOf, OfALayerThatTheSessionDoesNotHaveIsAnError) {
  StepFlags flags = DrawFlags(1);
  for (const int layer : {-1, 2}) {
    flags.layers = {layer};
    EXPECT_FALSE(PositionOf(flags, TwoLayerSession()).ok());
  }
}

}  // namespace
}  // namespace attn
