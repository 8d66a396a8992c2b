#include <cmath>
#include <string>
#include <vector>

#include "engine/core/half.h"
#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

// The result of a program for the first row of a [1, 1, 1, keys] call.
template <typename T = double>
std::vector<double> FirstRow(const ProgramCall& call,
                             const std::string& source) {
  return RunOnScores<T>(call, ProgramKind::kScore, source);
}

using ::testing::ElementsAre;
using ::testing::IsNan;

TEST(TableTest, EveryTypeIsRead) {
  ProgramCall call(1, 1, 1, 2);
  call.AddTable<float>("f32", DType::kF32, {2}, {1.5F, -2});
  call.AddTable<double>("f64", DType::kF64, {2}, {0.1, 3});
  call.AddTable<uint16_t>("f16", DType::kF16, {2}, {ToF16(0.5F), ToF16(7)});
  call.AddTable<uint16_t>("bf16", DType::kBF16, {2}, {ToBF16(4), ToBF16(-8)});
  call.AddTable<int32_t>("i32", DType::kI32, {2}, {-7, 1 << 30});
  call.AddTable<int64_t>("i64", DType::kI64, {2}, {int64_t{1} << 40, -1});
  call.AddTable<uint8_t>("flag", DType::kBool, {2}, {0, 1});
  EXPECT_THAT(FirstRow(call, "f32[k]"), ElementsAre(1.5, -2));
  EXPECT_THAT(FirstRow(call, "f64[k]"), ElementsAre(0.1, 3));
  EXPECT_THAT(FirstRow(call, "f16[k]"), ElementsAre(0.5, 7));
  EXPECT_THAT(FirstRow(call, "bf16[k]"), ElementsAre(4, -8));
  EXPECT_THAT(FirstRow(call, "i32[k]"), ElementsAre(-7, 1 << 30));
  EXPECT_THAT(FirstRow(call, "i64[k]"), ElementsAre(0x1p40, -1));
  EXPECT_THAT(FirstRow(call, "flag[k]"), ElementsAre(0, 1));
}

TEST(TableTest, IndicesAreRoundedDownAndOutOfRangeIsNaN) {
  ProgramCall call(1, 1, 1, 4);
  call.AddTable<float>("t", DType::kF32, {2}, {5, 6});
  EXPECT_THAT(FirstRow(call, "t[k - 1]"), ElementsAre(IsNan(), 5, 6, IsNan()));
  EXPECT_THAT(FirstRow(call, "t[k / 2 - .25]"), ElementsAre(IsNan(), 5, 5, 6));
  EXPECT_THAT(FirstRow(call,
                       "t[k == 0 ? inf : k == 1 ? -inf : k == 2 ? 0 / 0 "
                       ": 1e300]"),
              ElementsAre(IsNan(), IsNan(), IsNan(), IsNan()));
  EXPECT_THAT(FirstRow(call, "k < 2 ? t[k] : 0"), ElementsAre(5, 6, 0, 0));
}

TEST(TableTest, BothIndicesOfAMatrixAreChecked) {
  ProgramCall call(1, 1, 1, 4);
  call.AddTable<float>("t", DType::kF32, {2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_THAT(FirstRow(call, "t[1, k]"), ElementsAre(10, 11, 12, IsNan()));
  EXPECT_THAT(FirstRow(call, "t[k, 1]"), ElementsAre(1, 11, IsNan(), IsNan()));
  EXPECT_THAT(FirstRow(call, "t[k - 1, k - 1]"),
              ElementsAre(IsNan(), 0, 11, IsNan()));
}

TEST(TableTest, StridesAreFollowed) {
  static const float kValues[] = {0, 1, 2, 10, 11, 12};
  ProgramCall call(1, 1, 1, 3);
  call.AddView("t",
               TensorView::Dense(kValues, DType::kF32, {2, 3}).SwapAxes(0, 1));
  EXPECT_THAT(FirstRow(call, "t[k, 1]"), ElementsAre(10, 11, 12));
}

TEST(TableTest, ScoreMayBeAnIndex) {
  ProgramCall call(1, 1, 1, 23);
  call.AddTable<float>("t", DType::kF32, {3}, {100, 200, 300});
  const std::vector<double> got = FirstRow<float>(call, "t[score]");
  for (int64_t k = 0; k < 23; ++k) {
    const double index = std::floor(ScoreAt({0, 0, 0, k}));
    const double value = got[static_cast<size_t>(k)];
    if (index < 0 || index > 2) {
      EXPECT_TRUE(std::isnan(value)) << k;
    } else {
      EXPECT_EQ(value, 100 * (index + 1)) << k;
    }
  }
}

TEST(TableTest, LargeIdsAreToldApartInFloatTiles) {
  ProgramCall call(1, 1, 1, 2);
  call.AddTable<int32_t>("id", DType::kI32, {2}, {16777216, 16777217});
  const auto program = call.Compile(ProgramKind::kMask, "id[k] == id[0]");
  ASSERT_TRUE(program.ok());
  Elements<float> tile(call.Head(0, 0), 1);
  (*program)->Exclude(call.view(), tile.tile());
  EXPECT_EQ(tile(0, 0), 1);
  EXPECT_EQ(tile(0, 1), -kInf);
}

}  // namespace
}  // namespace attn
