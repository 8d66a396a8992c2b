#include "engine/core/row_norm.h"

#include <cmath>

#include "engine/core/half.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(RowNormTest, IsTheRootMeanSquareOfTheRowsNorms) {
  const std::vector<float> values = {3, 4, 0, 0, 5, 12};
  const TensorView view =
      TensorView::Dense(values.data(), DType::kF32, {1, 1, 3, 2});
  EXPECT_DOUBLE_EQ(MeanRowNorm(view, {}), std::sqrt((25 + 0 + 169) / 3.0));
}

TEST(RowNormTest, EveryFloatTypeReadsAlike) {
  const std::vector<double> wide = {3, 4};
  const std::vector<uint16_t> half = {ToF16(3), ToF16(4)};
  const std::vector<uint16_t> brain = {ToBF16(3), ToBF16(4)};
  const Shape shape = {1, 1, 1, 2};
  EXPECT_EQ(MeanRowNorm(TensorView::Dense(wide.data(), DType::kF64, shape), {}),
            5);
  EXPECT_EQ(MeanRowNorm(TensorView::Dense(half.data(), DType::kF16, shape), {}),
            5);
  EXPECT_EQ(
      MeanRowNorm(TensorView::Dense(brain.data(), DType::kBF16, shape), {}), 5);
}

TEST(RowNormTest, RowsBeyondTheLengthsAndOtherLayoutsAreRight) {
  // [B, S, H, D] = [1, 2, 2, 1]; the second row is beyond the length.
  const std::vector<float> values = {3, 4, 100, NAN};
  const TensorView view =
      TensorView::Dense(values.data(), DType::kF32, {1, 2, 2, 1})
          .SwapAxes(1, 2);
  EXPECT_DOUBLE_EQ(MeanRowNorm(view, {1}), std::sqrt((9 + 16) / 2.0));
  EXPECT_EQ(MeanRowNorm(view, {0}), 0);
}

}  // namespace
}  // namespace attn
