// Runs a test once on every instruction set that this machine has.
#pragma once

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace attn {

// Parameter: one of Highway's targets, the only one while the test runs.
class OnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { Use(GetParam()); }
  void TearDown() override { Use(0); }

 private:
  static void Use(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::string TargetParamName(
    const testing::TestParamInfo<int64_t>& target) {
  return hwy::TargetName(target.param);
}

}  // namespace attn

#define ATTN_ON_EVERY_TARGET(suite)                           \
  INSTANTIATE_TEST_SUITE_P(                                   \
      EveryTarget, suite,                                     \
      testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
      attn::TargetParamName)
