#include "engine/tile/broadcast_view.h"

#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using testing::HasSubstr;

constexpr DType kFloats[] = {DType::kF32};
constexpr BroadcastRule kRule = {kFloats, "F32"};
constexpr int64_t kTarget[] = {2, 3, 4, 5};

Problem ProblemWith(Shape shape, DType dtype = DType::kF32) {
  Problem problem;
  problem.shape = {.batch = kTarget[0],
                   .q_heads = kTarget[1],
                   .kv_heads = 1,
                   .q_length = kTarget[2],
                   .kv_length = kTarget[3],
                   .q_dim = 1,
                   .k_dim = 1,
                   .v_dim = 1};
  problem.inputs = {{dtype, std::move(shape)}};
  return problem;
}

// The shape that keeps the target's extent on the axes of `kept`, has 1 on
// the others, and leaves out the first 4 - rank.
Shape Partial(int rank, unsigned kept) {
  std::vector<int64_t> dims;
  for (int axis = 4 - rank; axis < 4; ++axis) {
    dims.push_back((kept >> axis & 1U) != 0 ? kTarget[axis] : 1);
  }
  return *Shape::Create(dims, 4, "shape");
}

// Element offset by numpy's rule, counted digit by digit.
int64_t OffsetOf(const Shape& shape, const int64_t (&index)[4]) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t extent = shape[axis];
    const int64_t i = extent == 1 ? 0 : index[4 - shape.rank() + axis];
    offset = offset * extent + i;
  }
  return offset;
}

TEST(BroadcastView, EveryShapeThatBroadcastsReadsTheRightElement) {
  const std::vector<float> data(120);
  const auto* base = reinterpret_cast<const std::byte*>(data.data());
  for (int rank = 1; rank <= 4; ++rank) {
    for (unsigned kept = 0; kept < 16; ++kept) {
      const Shape shape = Partial(rank, kept);
      ASSERT_TRUE(CheckBroadcast(ProblemWith(shape), 0, kRule, "f").ok());
      const BroadcastView view(TensorView::Dense(base, DType::kF32, shape));
      for (int64_t n = 0; n < 120; ++n) {
        const int64_t at[4] = {n / 60, n / 20 % 3, n / 5 % 4, n % 5};
        ASSERT_EQ(view.At(at[0], at[1], at[2], at[3]) - base,
                  4 * OffsetOf(shape, at));
      }
    }
  }
}

TEST(BroadcastView, SwappedAxesAreFollowed) {
  const std::vector<float> data(20);
  const auto* base = reinterpret_cast<const std::byte*>(data.data());
  // [Sk, Sq] in memory, seen as [Sq, Sk].
  const BroadcastView view(
      TensorView::Dense(base, DType::kF32, Shape{5, 4}).SwapAxes(0, 1));
  EXPECT_EQ(view.key_stride(), 4);
  EXPECT_EQ(view.row_stride(), 1);
  EXPECT_EQ(view.At(1, 2, 3, 4) - base, 4 * (4 * 4 + 3));
}

TEST(BroadcastView, AnExtentThatDoesNotFitIsRefusedByName) {
  for (const Shape& shape : {Shape{4}, Shape{4, 4}, Shape{2, 1, 1}, Shape{},
                             Shape{0}, Shape{1, 1, 1, 1, 5}}) {
    const absl::Status status =
        CheckBroadcast(ProblemWith(shape), 0, kRule, "spec.x.input");
    EXPECT_EQ(FieldOf(status), "spec.x.input");
    EXPECT_THAT(std::string(status.message()), HasSubstr(shape.ToString()));
    EXPECT_THAT(std::string(status.message()), HasSubstr("[2, 3, 4, 5]"));
  }
}

TEST(BroadcastView, AMissingInputAndAWrongTypeAreRefusedByName) {
  absl::Status status = CheckBroadcast(ProblemWith({5}), 1, kRule, "f");
  EXPECT_EQ(FieldOf(status), "f");
  EXPECT_THAT(std::string(status.message()), HasSubstr("one of 1 inputs"));
  status = CheckBroadcast(ProblemWith({5}, DType::kBool), 0, kRule, "f");
  EXPECT_EQ(FieldOf(status), "f");
  EXPECT_THAT(std::string(status.message()), HasSubstr("BOOL"));
}

}  // namespace
}  // namespace attn
