#include "engine/core/isa_cap.h"

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

TEST(IsaCap, EveryCapIsReadFromItsName) {
  for (const IsaCap cap :
       {IsaCap::kNative, IsaCap::kSse4, IsaCap::kAvx2, IsaCap::kAvx512}) {
    const auto parsed = ParseIsaCap(Name(cap));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, cap);
  }
}

TEST(IsaCap, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto parsed = ParseIsaCap("avx3");
  EXPECT_EQ(FieldOf(parsed.status()), "max_isa");
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("avx512"));
}

}  // namespace
}  // namespace attn
