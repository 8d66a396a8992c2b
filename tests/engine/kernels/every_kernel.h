// Runs a test for each kernel of the table.
#pragma once

#include <string>
#include <vector>

#include "engine/kernels/kernel.h"
#include "gtest/gtest.h"
#include "tests/testing/compare.h"
#include "tests/testing/engine_call.h"

namespace attn::testing {

// A test with the parameter of one kernel.
class EveryKernel : public ::testing::TestWithParam<const Kernel*> {
 protected:
  const Kernel& kernel() const { return *GetParam(); }

  // Whether this kernel computes the call.
  bool Supports(const EngineCall& call) const {
    const auto problem = call.MakeProblem();
    EXPECT_TRUE(problem.ok()) << problem.status();
    return problem.ok() && kernel().WhyNot(*problem).empty();
  }

  Outcome Run(const oracle::Case& call, const CallOptions& options = {}) const {
    return EngineCall(call, options).RunBackwards(kernel());
  }
};

inline auto AllKernels() {
  const auto table = KernelTable();
  return ::testing::ValuesIn(
      std::vector<const Kernel*>(table.begin(), table.end()));
}

inline std::string KernelName(
    const ::testing::TestParamInfo<const Kernel*>& info) {
  return info.param->name();
}

}  // namespace attn::testing
