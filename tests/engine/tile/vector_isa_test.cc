#include "engine/tile/vector_isa.h"

#include <cstdlib>

#include "engine/tile/row_math.h"
#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

bool HasSse4() {
  return WidestVectors() >= VectorIsa::kSse4 &&
         WidestVectors() <= VectorIsa::kAvx512;
}

class VectorIsaTest : public OnEveryTarget {};

// Highway's own name of the target says which vectors it has.
TEST_P(VectorIsaTest, TheWidestVectorsAreThoseOfTheTargetInUse) {
  const std::string target = hwy::TargetName(GetParam());
  VectorIsa expected = VectorIsa::kPortable;
  if (target == "SSE4") expected = VectorIsa::kSse4;
  if (target == "AVX2") expected = VectorIsa::kAvx2;
  if (target.starts_with("AVX3")) expected = VectorIsa::kAvx512;
  if (target.starts_with("NEON")) expected = VectorIsa::kNeon;
  if (target.starts_with("SVE")) expected = VectorIsa::kSve;
  EXPECT_EQ(WidestVectors(), expected) << target;
}

ATTN_ON_EVERY_TARGET(VectorIsaTest);

// 0 if the cap is in force and stays so.
[[noreturn]] void ExitUnderCap() {
  CapVectors(IsaCap::kSse4);
  const bool is_capped = WidestVectors() == VectorIsa::kSse4;
  const float row[] = {1, 2};
  const bool computes = RowMax(row, 2) == 2;
  const bool stays =
      WidestVectors() == VectorIsa::kSse4 && RowMathIsa() == "SSE4";
  std::exit(is_capped && computes && stays ? 0 : 1);
}

// In a process of its own: what is taken away does not come back. Highway's own
// question for the targets chose the widest ones again.
TEST(CapVectorsDeathTest, AskingForTheVectorsDoesNotLiftTheCap) {
  if (!HasSse4()) GTEST_SKIP() << "this machine lacks SSE4";
  EXPECT_EXIT(ExitUnderCap(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace attn
