// Numbers in tensors that have no meaning are refused before a call runs.
#include "engine/plan/call_values.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// q [2, 2, 3, 4], k and v [2, 2, 5, 4]; data of inputs only.
class CallValuesTest : public ::testing::Test {
 protected:
  CallValuesTest() : engine_({.workers = 1}) {
    args_.q = TensorView::Dense(nullptr, DType::kF32, {2, 2, 3, 4});
    args_.k = TensorView::Dense(nullptr, DType::kF32, {2, 2, 5, 4});
    args_.v = args_.k;
  }

  // The field that is refused; empty if none is.
  std::string Refused() {
    const auto plan =
        engine_.Plan(spec_, args_, OutputSelection{}, DType::kF32);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return "";
    return FieldOf(Engine::CheckValues(**plan, args_)).value_or("");
  }

  Engine engine_;
  AttentionSpec spec_;
  AttentionArgs args_;
};

TEST_F(CallValuesTest, AlphasOfEntmaxAreFiniteAndFromOneOn) {
  std::vector<float> alphas = {1, 2.5};
  args_.inputs = {TensorView::Dense(alphas.data(), DType::kF32, {2})};
  EntmaxNormalizer entmax;
  entmax.alphas = 0;
  spec_.normalizer = entmax;
  EXPECT_EQ(Refused(), "");
  for (const float bad :
       {0.99F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    alphas[1] = bad;
    EXPECT_EQ(Refused(), "spec.normalizer.entmax.alphas.input") << bad;
  }
}

TEST_F(CallValuesTest, PositionsAreThoseThatTheTableHas) {
  const std::vector<float> angles(16, 0.5F);
  std::vector<int64_t> queries = {0, 1, 7, 7, 0, 3};
  std::vector<int64_t> keys = {0, 1, 2, 3, 7};
  args_.inputs = {TensorView::Dense(angles.data(), DType::kF32, {8, 2}),
                  TensorView::Dense(angles.data(), DType::kF32, {8, 2}),
                  TensorView::Dense(queries.data(), DType::kI64, {2, 3}),
                  TensorView::Dense(keys.data(), DType::kI64, {5})};
  RotaryTransform rotary;
  rotary.cos = 0;
  rotary.sin = 1;
  rotary.query_positions = 2;
  rotary.key_positions = 3;
  spec_.transforms = {NormTransform{}, rotary};
  EXPECT_EQ(Refused(), "");
  const std::string field = "spec.transforms[1].rotary";
  keys[4] = 8;
  EXPECT_EQ(Refused(), field + ".key_positions.input");
  // Keys beyond the lengths are not looked at.
  args_.kv_lengths = {4, 3};
  EXPECT_EQ(Refused(), "");
  queries[5] = -1;
  EXPECT_EQ(Refused(), field + ".query_positions.input");
  args_.q_lengths = {3, 2};
  EXPECT_EQ(Refused(), "");
  // What does not turn has no positions.
  args_.kv_lengths.clear();
  EXPECT_EQ(Refused(), field + ".key_positions.input");
  std::get<RotaryTransform>(spec_.transforms[1]).target =
      TransformTarget::kQuery;
  std::get<RotaryTransform>(spec_.transforms[1]).key_positions.reset();
  EXPECT_EQ(Refused(), "");
}

}  // namespace
}  // namespace attn
