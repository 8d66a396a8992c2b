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

  // Asks for rows of scores, and for what is made of them, only if the kernel
  // ever holds them.
  CallOptions Options(CallOptions options = {}) const {
    options.scores = options.scores && HoldsRows();
    options.statistics = options.statistics && HoldsRows();
    return options;
  }
  bool HoldsRows() const {
    Problem problem;
    problem.shape = {1, 1, 1, 1, 1, 1, 1, 1};
    problem.outputs.weights = true;
    return kernel().WhyNot(problem).empty();
  }
  Outcome Run(const oracle::Case& call, const CallOptions& options = {}) const {
    return EngineCall(call, Options(options)).RunBackwards(kernel());
  }
};

// Those that form scores of any number of queries, or of so many: a recurrent
// one refuses a softmax.
inline auto AllKernels(int64_t q_length = 1024) {
  Problem problem;
  problem.shape = {.batch = 1,
                   .q_heads = 1,
                   .kv_heads = 1,
                   .q_length = q_length,
                   .kv_length = 1,
                   .q_dim = 1,
                   .k_dim = 1,
                   .v_dim = 1};
  std::vector<const Kernel*> kernels;
  for (const Kernel* kernel : KernelTable()) {
    if (kernel->WhyNot(problem).empty()) kernels.push_back(kernel);
  }
  return ::testing::ValuesIn(kernels);
}

inline std::string KernelName(
    const ::testing::TestParamInfo<const Kernel*>& info) {
  return info.param->name();
}

}  // namespace attn::testing
