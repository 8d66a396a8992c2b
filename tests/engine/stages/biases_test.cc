#include <cmath>
#include <random>
#include <vector>

#include "engine/biases/bias.h"
#include "engine/core/field_error.h"
#include "engine/core/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& problem) {
  return BiasTable()[spec.index()].make(spec, problem);
}

absl::Status Validate(const BiasSpec& spec, const Problem& problem) {
  return BiasTable()[spec.index()].validate(spec, problem, "spec.biases[2]");
}

// What the bias adds to a logit of 1, read from a one-element tile.
template <typename T>
T Added(const Bias& bias, const StageCall& call, const TileBounds& at) {
  OwnedTile<T> one(at, T{1});
  bias.Add(call.view(), one.tile());
  return one.At(0, 0);
}

// From the published table: 2^(-8 i / n) for n = 8 and the interleaving of 12.
TEST(AlibiBiasStage, SlopesArePublishedOnesForPowersOfTwo) {
  StageCall call(1, 8, 1, 2);
  const auto bias = Make(AlibiBias{}, call.problem());
  for (int64_t h = 0; h < 8; ++h) {
    // Distance 1: query 0 stands at key 1.
    EXPECT_EQ(Added<double>(*bias, call, {0, h, 0, 1, 0, 1}),
              1 - std::ldexp(1.0, static_cast<int>(-h - 1)));
  }
}

TEST(AlibiBiasStage, TwelveHeadsInterleaveTheSlopesOfEightAndSixteen) {
  StageCall call(1, 12, 1, 2);
  const auto bias = Make(AlibiBias{}, call.problem());
  // Exponents in halves: eight heads give -2, -4, ..., the further four the
  // first, third, ... of sixteen.
  const double exponents[] = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5};
  for (int64_t h = 0; h < 12; ++h) {
    EXPECT_DOUBLE_EQ(1 - Added<double>(*bias, call, {0, h, 0, 1, 0, 1}),
                     std::pow(2.0, -exponents[h]));
  }
}

TEST(AlibiBiasStage, OneHeadHasTheSmallestSlope) {
  StageCall call(1, 1, 1, 2);
  EXPECT_EQ(Added<double>(*Make(AlibiBias{}, call.problem()), call,
                          {0, 0, 0, 1, 0, 1}),
            1 - 1.0 / 256);
}

template <typename T>
void ExpectDistances(int64_t q_length, int64_t kv_length) {
  StageCall call(1, 2, q_length, kv_length);
  // Lengths hide keys; they do not move the diagonal of the bias.
  call.KvLengths({kv_length / 2});
  const auto bias = Make(AlibiBias{{0.5, -0.25}}, call.problem());
  ForEachTile(call.shape(), 0, 1, [&](const TileBounds& b) {
    OwnedTile<T> tile(b, T{3});
    bias->Add(call.view(), tile.tile());
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t j = 0; j < b.keys; ++j) {
        const int64_t distance =
            std::abs(b.row_begin + r + kv_length - q_length - b.key_begin - j);
        ASSERT_EQ(tile.At(r, j),
                  3 + static_cast<T>(0.25) * static_cast<T>(distance));
      }
    }
  });
}

TEST(AlibiBiasStage, DistancesAreFromTheBottomRightDiagonal) {
  for (const auto& [q, k] :
       {std::pair<int64_t, int64_t>{1, 17}, {5, 5}, {7, 3}, {3, 20}}) {
    ExpectDistances<float>(q, k);
    ExpectDistances<double>(q, k);
  }
}

TEST(AlibiBiasStage, LongRowsCrossTheChunksUnharmed) {
  StageCall call(1, 1, 2, 1000);
  const auto bias = Make(AlibiBias{{1.0}}, call.problem());
  OwnedTile<float> tile({0, 0, 0, 2, 3, 990});
  bias->Add(call.view(), tile.tile());
  for (int64_t j = 0; j < 990; ++j) {
    ASSERT_EQ(tile.At(1, j), -static_cast<float>(std::abs(999 - 3 - j)));
  }
}

TEST(AlibiBiasStage, SlopesMustBeOnePerHeadAndFinite) {
  StageCall call(1, 3, 2, 2);
  EXPECT_TRUE(Validate(AlibiBias{}, call.problem()).ok());
  EXPECT_TRUE(Validate(AlibiBias{{1, 0, -1}}, call.problem()).ok());
  EXPECT_EQ(FieldOf(Validate(AlibiBias{{1, 2}}, call.problem())),
            "spec.biases[2].alibi.slopes");
  EXPECT_EQ(FieldOf(Validate(AlibiBias{{1, 2, kNaN}}, call.problem())),
            "spec.biases[2].alibi.slopes[2]");
}

TEST(AlibiBiasStage, ASlopeThatNoFloatHoldsStaysFinite) {
  StageCall call(1, 1, 1, 3);
  const auto bias = Make(AlibiBias{{1e300}}, call.problem());
  OwnedTile<float> tile({0, 0, 0, 1, 0, 3});
  bias->Add(call.view(), tile.tile());
  const float lowest = std::numeric_limits<float>::lowest();
  EXPECT_EQ(tile.At(0, 0), lowest);
  EXPECT_EQ(tile.At(0, 1), lowest);
  EXPECT_EQ(tile.At(0, 2), 0.0F);
}

// Each broadcast shape in each type gives the element that numpy would.
template <typename T, typename Element, typename Encode>
void ExpectDense(DType dtype, const Shape& shape, Encode encode) {
  StageCall call(2, 3, 4, 5);
  std::vector<Element> values;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(encode(static_cast<float>(i) + 0.5F));
  }
  const uint32_t input = call.AddInput(dtype, shape, values);
  const auto bias = Make(DenseBias{input}, call.problem());
  const int64_t extents[] = {2, 3, 4, 5};
  OwnedTile<T> tile({1, 2, 1, 3, 1, 4}, T{2});
  bias->Add(call.view(), tile.tile());
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t at[] = {1, 2, r + 1, j + 1};
      int64_t offset = 0;
      for (int axis = 4 - shape.rank(); axis < 4; ++axis) {
        const int64_t extent = shape[axis - 4 + shape.rank()];
        offset = offset * extent + (extent == extents[axis] ? at[axis] : 0);
      }
      ASSERT_EQ(tile.At(r, j), static_cast<T>(offset) + T{2.5})
          << shape.ToString();
    }
  }
}

TEST(DenseBiasStage, EveryTypeBroadcastsToEveryPlace) {
  const Shape shapes[] = {{5},          {1},          {4, 1},
                          {4, 5},       {3, 1, 5},    {2, 1, 1, 5},
                          {2, 3, 4, 5}, {1, 3, 4, 1}, {2, 1, 4, 5}};
  for (const Shape& shape : shapes) {
    const auto same = [](float x) { return x; };
    const auto wide = [](float x) { return static_cast<double>(x); };
    ExpectDense<float, float>(DType::kF32, shape, same);
    ExpectDense<double, float>(DType::kF32, shape, same);
    ExpectDense<float, double>(DType::kF64, shape, wide);
    ExpectDense<double, double>(DType::kF64, shape, wide);
    ExpectDense<float, uint16_t>(DType::kF16, shape, ToF16);
    ExpectDense<double, uint16_t>(DType::kBF16, shape, ToBF16);
  }
}

TEST(DenseBiasStage, ATransposedTensorIsReadThroughItsStrides) {
  StageCall call(1, 1, 2, 3);
  // [Sk, Sq] in memory.
  call.AddInput<float>(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  call.args().inputs[0] = call.args().inputs[0].SwapAxes(0, 1);
  call.problem().inputs[0].shape = {2, 3};
  const auto bias = Make(DenseBias{0}, call.problem());
  OwnedTile<float> tile({0, 0, 0, 2, 0, 3});
  bias->Add(call.view(), tile.tile());
  EXPECT_EQ(tile.At(0, 2), 5.0F);
  EXPECT_EQ(tile.At(1, 1), 4.0F);
}

TEST(DenseBiasStage, MinusInfinityExcludesAndFiniteNumbersDoNot) {
  constexpr double huge = std::numeric_limits<double>::lowest();
  StageCall call(1, 1, 1, 3);
  call.AddInput<double>(DType::kF64, {3}, {-kInf, huge, -1e4});
  const auto bias = Make(DenseBias{0}, call.problem());
  OwnedTile<float> tile({0, 0, 0, 1, 0, 3}, -1.0F);
  bias->Add(call.view(), tile.tile());
  bias->Add(call.view(), tile.tile());
  EXPECT_EQ(tile.At(0, 0), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(tile.At(0, 1), std::numeric_limits<float>::lowest());
  EXPECT_EQ(tile.At(0, 2), -20001.0F);
}

TEST(DenseBiasStage, AWrongInputIsRefusedByName) {
  StageCall call(1, 1, 4, 5);
  call.AddInput<uint8_t>(DType::kBool, {5}, {1, 1, 1, 1, 1});
  call.AddInput<float>(DType::kF32, {4}, {1, 1, 1, 1});
  for (const uint32_t input : {0U, 1U, 2U}) {
    EXPECT_EQ(FieldOf(Validate(DenseBias{input}, call.problem())),
              "spec.biases[2].dense.tensor.input");
  }
}

}  // namespace
}  // namespace attn
