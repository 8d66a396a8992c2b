#include "engine/core/dtype.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

struct Row {
  DType dtype;
  int wire_value;
  size_t size;
  const char* name;
  bool is_float;
};

constexpr Row kRows[] = {
    {DType::kF32, 1, 4, "F32", true},    {DType::kF16, 2, 2, "F16", true},
    {DType::kBF16, 3, 2, "BF16", true},  {DType::kF64, 4, 8, "F64", true},
    {DType::kBool, 5, 1, "BOOL", false}, {DType::kI8, 6, 1, "I8", false},
    {DType::kI32, 7, 4, "I32", false},   {DType::kI64, 8, 8, "I64", false},
};

TEST(DTypeTest, EachTypeHasItsSizeNameAndKind) {
  for (const Row& row : kRows) {
    EXPECT_EQ(static_cast<int>(row.dtype), row.wire_value) << row.name;
    EXPECT_EQ(SizeOf(row.dtype), row.size) << row.name;
    EXPECT_EQ(Name(row.dtype), row.name);
    EXPECT_EQ(IsFloat(row.dtype), row.is_float) << row.name;
  }
}

}  // namespace
}  // namespace attn
