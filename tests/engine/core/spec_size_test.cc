#include "engine/core/spec_size.h"

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(SpecSizeTest, ListsHaveABound) {
  AttentionSpec spec;
  spec.biases.resize(64);
  EXPECT_TRUE(CheckSpecSize(spec).ok());
  spec.biases.resize(65);
  EXPECT_EQ(FieldOf(CheckSpecSize(spec)), "spec.biases");
  spec = {};
  spec.transforms.resize(65);
  EXPECT_EQ(FieldOf(CheckSpecSize(spec)), "spec.transforms");
  spec = {};
  spec.sparsifiers.resize(65);
  EXPECT_EQ(FieldOf(CheckSpecSize(spec)), "spec.sparsifiers");
}

// 8 of 8: few at each level, many in all.
TEST(SpecSizeTest, MasksInsideOfMasksCount) {
  AnyOfMask inner;
  inner.masks.assign(8, CausalMask{});
  AnyOfMask outer;
  outer.masks.assign(7, inner);
  AttentionSpec spec;
  spec.masks = {outer};
  EXPECT_TRUE(CheckSpecSize(spec).ok());
  outer.masks.push_back(inner);
  spec.masks = {outer};
  EXPECT_EQ(FieldOf(CheckSpecSize(spec)), "spec.masks");
}

}  // namespace
}  // namespace attn
