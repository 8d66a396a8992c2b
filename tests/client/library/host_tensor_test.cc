#include "client/library/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;

TEST(HostTensorTest, HoldsTheValuesThatItIsMadeFrom) {
  const auto tensor = HostTensor::From<float>({2, 2}, {1, 2, 3, 4});
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tensor->view().shape, (Shape{2, 2}));
}

TEST(HostTensorTest, RefusesAnotherNumberOfValues) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      HostTensor::From<float>({2, 2}, {1, 2, 3}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(HostTensor::From<float>({-1}, {}).status()));
}

TEST(HostTensorTest, ConvertsToNarrowerTypesToNearest) {
  // bfloat16 has 8 bits of mantissa: 1 + 2^-9 is half way, to even.
  const auto tensor = HostTensor::From<float>({3}, {1.0F, 1.001953125F, -3.0F});
  const HostTensor narrow = tensor->To(DType::kBF16);
  EXPECT_EQ(narrow.byte_count(), 6U);
  EXPECT_EQ(narrow.At(0), 1);
  EXPECT_EQ(narrow.At(1), 1);
  EXPECT_EQ(narrow.At(2), -3);
  const HostTensor half =
      HostTensor::From<double>({2}, {65504, 1e6})->To(DType::kF16);
  EXPECT_EQ(half.At(0), 65504);
  EXPECT_EQ(half.At(1), std::numeric_limits<double>::infinity());
}

TEST(HostTensorTest, CopiesAStridedView) {
  const auto tensor =
      HostTensor::From<int32_t>({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const HostTensor swapped = HostTensor::Copy(tensor->view().SwapAxes(1, 2));
  EXPECT_EQ(swapped.shape(), (Shape{1, 3, 2, 1}));
  EXPECT_THAT(swapped.values<int32_t>(), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(HostTensorTest, RefusesAMessageThatContradictsItself) {
  v1::Tensor message;
  message.set_dtype(v1::DATA_TYPE_F32);
  message.add_shape(2);
  message.set_data("1234");
  EXPECT_TRUE(absl::IsInvalidArgument(HostTensor::Copy(message).status()));
  message.set_data("12345678");
  EXPECT_TRUE(HostTensor::Copy(message).ok());
  message.set_shape(0, int64_t{1} << 62);
  EXPECT_TRUE(absl::IsInvalidArgument(HostTensor::Copy(message).status()));
}

TEST(HostTensorTest, ReshapesOnlyToAsManyElements) {
  auto tensor = HostTensor::From<float>({6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(HostTensor(DType::kF32, {6}).To(DType::kF32).shape(), (Shape{6}));
  EXPECT_FALSE(HostTensor(DType::kF32, {6}).Reshape({4}).ok());
  const auto reshaped = (*std::move(tensor)).Reshape({2, 3});
  ASSERT_TRUE(reshaped.ok());
  EXPECT_EQ(reshaped->At(5), 6);
}

TEST(HostTensorTest, ReadingAnotherTypeDies) {
  const HostTensor tensor(DType::kF32, {1});
  EXPECT_DEATH(tensor.values<double>(), "F32 read as F64");
}

}  // namespace
}  // namespace attn
