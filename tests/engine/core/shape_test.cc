#include "engine/core/shape.h"

#include <cstdint>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/core/tensor_view.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using Dims = std::vector<int64_t>;

TEST(ShapeTest, KeepsItsExtents) {
  const absl::StatusOr<Shape> shape = Shape::Create(Dims{2, 8, 512, 64}, 4, "");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rank(), 4);
  EXPECT_EQ((*shape)[2], 512);
  EXPECT_EQ(shape->element_count(), 2 * 8 * 512 * 64);
  EXPECT_EQ(shape->ToString(), "[2, 8, 512, 64]");
  EXPECT_EQ(*shape, Shape({2, 8, 512, 64}));
  EXPECT_FALSE(*shape == Shape({2, 8, 512}));
}

TEST(ShapeTest, AScalarHasOneElementAndAnEmptyTensorNone) {
  EXPECT_EQ(Shape().element_count(), 1);
  EXPECT_EQ(Shape({3, 0, 5}).element_count(), 0);
}

TEST(ShapeTest, RefusesNegativeExtentsAndNamesTheField) {
  const absl::Status status = Shape::Create(Dims{2, -1}, 4, "q.shape").status();
  EXPECT_EQ(FieldOf(status), "q.shape");
  EXPECT_EQ(status.message(), "q.shape: got [2, -1], expected extents >= 0");
}

TEST(ShapeTest, RefusesRanksAboveTheLimit) {
  EXPECT_TRUE(Shape::Create(Dims(kMaxRank, 1), 4, "x").ok());
  EXPECT_EQ(FieldOf(Shape::Create(Dims(kMaxRank + 1, 1), 4, "x").status()),
            "x");
}

TEST(ShapeTest, RefusesByteSizesThatOverflow) {
  const int64_t half = int64_t{1} << 31;
  EXPECT_TRUE(Shape::Create(Dims{half, half}, 1, "x").ok());
  EXPECT_FALSE(Shape::Create(Dims{half, half}, 2, "x").ok());
  EXPECT_FALSE(Shape::Create(Dims{INT64_MAX}, 4, "x").ok());
}

TEST(ShapeTest, AZeroDoesNotHideExtentsThatOverflow) {
  const int64_t huge = int64_t{1} << 62;
  for (const Dims& dims : {Dims{0, huge, 8}, Dims{huge, 8, 0}}) {
    EXPECT_FALSE(Shape::Create(dims, 1, "x").ok());
  }
  const absl::StatusOr<Shape> shape = Shape::Create(Dims{0, huge}, 1, "x");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->element_count(), 0);
  EXPECT_EQ(RowMajorStrides(*shape)[0], huge);
}

}  // namespace
}  // namespace attn
