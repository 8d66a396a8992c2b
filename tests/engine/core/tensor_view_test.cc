#include "engine/core/tensor_view.h"

#include <array>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

float At(const TensorView& view, int64_t i, int64_t j, int64_t k) {
  const int64_t offset =
      i * view.strides[0] + j * view.strides[1] + k * view.strides[2];
  return reinterpret_cast<const float*>(view.data)[offset];
}

TEST(TensorViewTest, DenseIsRowMajor) {
  std::array<float, 2 * 3 * 4> data{};
  std::iota(data.begin(), data.end(), 0.0F);
  const TensorView view =
      TensorView::Dense(data.data(), DType::kF32, {2, 3, 4});
  EXPECT_THAT(view.strides, ElementsAre(12, 4, 1));
  EXPECT_EQ(view.byte_count(), 2 * 3 * 4 * 4);
  EXPECT_EQ(At(view, 1, 2, 3), 23);
}

TEST(TensorViewTest, SwappedAxesShowTheSameElements) {
  std::array<float, 2 * 3 * 4> data{};
  std::iota(data.begin(), data.end(), 0.0F);
  const TensorView view =
      TensorView::Dense(data.data(), DType::kF32, {2, 3, 4});
  const TensorView swapped = view.SwapAxes(0, 2);
  EXPECT_EQ(swapped.shape, Shape({4, 3, 2}));
  EXPECT_EQ(swapped.byte_count(), view.byte_count());
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) {
        EXPECT_EQ(At(swapped, k, j, i), At(view, i, j, k));
      }
    }
  }
}

TEST(TensorViewTest, ADescribedTensorNeedsNoData) {
  const TensorView view =
      TensorView::Dense(nullptr, DType::kBF16, {1, 2, 0, 64});
  EXPECT_EQ(view.byte_count(), 0);
  EXPECT_EQ(view.SwapAxes(1, 2).shape, Shape({1, 0, 2, 64}));
}

TEST(MutableTensorViewTest, IsWantedIfItHasData) {
  double value = 0;
  EXPECT_TRUE(MutableTensorView::Dense(&value, DType::kF64, {1}).wanted());
  EXPECT_FALSE(MutableTensorView().wanted());
}

TEST(MutableTensorViewTest, SwapsAxesAsTheReadOnlyOneDoes) {
  std::array<double, 6> data{};
  const MutableTensorView view =
      MutableTensorView::Dense(data.data(), DType::kF64, {2, 3}).SwapAxes(0, 1);
  EXPECT_EQ(view.shape, Shape({3, 2}));
  EXPECT_THAT(view.strides, ElementsAre(1, 3));
  EXPECT_EQ(view.byte_count(), 48);
}

}  // namespace
}  // namespace attn
