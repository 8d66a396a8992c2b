#include "engine/plan/kernel_choice.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr CpuClass kClasses[] = {CpuClass::kPortable,   CpuClass::kSse4,
                                 CpuClass::kAvx2,       CpuClass::kAvx512,
                                 CpuClass::kAvx512Bf16, CpuClass::kAvx512Amx,
                                 CpuClass::kNeon,       CpuClass::kSve};

struct Extents {
  int64_t q_heads = 8;
  int64_t kv_heads = 8;
  int64_t q_length = 512;
  int64_t kv_length = 512;
};

Problem ProblemOf(const Extents& extents, DType dtype = DType::kF32) {
  const auto view = [dtype](int64_t heads, int64_t rows) {
    return TensorView::Dense(nullptr, dtype, {1, heads, rows, 64});
  };
  AttentionArgs args;
  args.q = view(extents.q_heads, extents.q_length);
  args.k = view(extents.kv_heads, extents.kv_length);
  args.v = args.k;
  return MakeProblem({}, args, {}, dtype, "").value();
}

std::vector<std::string> NamesOf(const std::vector<const Kernel*>& kernels) {
  std::vector<std::string> names;
  for (const Kernel* kernel : kernels) names.emplace_back(kernel->name());
  return names;
}

TEST(KernelChoice, TheKindIsThatOfTheTypeAndOfTheKeys) {
  EXPECT_EQ(KindOf(ProblemOf({})), WorkKind::kAny);
  EXPECT_EQ(KindOf(ProblemOf({}, DType::kBF16)), WorkKind::kTilesOfBf16);
  EXPECT_EQ(KindOf(ProblemOf({.kv_length = 64}, DType::kBF16)), WorkKind::kAny);
}

// Where in the order the kernel comes.
size_t PlaceOf(const std::string& kernel, const Problem& problem,
               CpuClass cpu) {
  const auto names = NamesOf(KernelsInOrder(problem, cpu));
  return static_cast<size_t>(std::find(names.begin(), names.end(), kernel) -
                             names.begin());
}

TEST(KernelChoice, ProductsOfBf16ComeFirstWhereTheyAreFasterThanF32) {
  const Problem bf16 = ProblemOf({}, DType::kBF16);
  for (const CpuClass cpu : kClasses) {
    const bool is_faster =
        cpu == CpuClass::kAvx512Bf16 || cpu == CpuClass::kAvx512Amx;
    EXPECT_EQ(
        PlaceOf("flash_onednn", bf16, cpu) < PlaceOf("flash_simd", bf16, cpu),
        is_faster)
        << Name(cpu);
    EXPECT_LT(PlaceOf("decode", bf16, cpu), PlaceOf("flash_onednn", bf16, cpu))
        << Name(cpu);
  }
}

TEST(KernelChoice, EveryKernelIsAskedOnceWhateverTheClass) {
  const std::vector<Problem> problems = {
      ProblemOf({}), ProblemOf({}, DType::kBF16), ProblemOf({.q_length = 1}),
      ProblemOf({.q_length = 16, .kv_length = 16})};
  const auto table = KernelTable();
  const std::multiset<const Kernel*> all(table.begin(), table.end());
  for (const CpuClass cpu : kClasses) {
    for (const Problem& problem : problems) {
      const auto order = KernelsInOrder(problem, cpu);
      EXPECT_EQ(std::multiset<const Kernel*>(order.begin(), order.end()), all)
          << Name(cpu);
      EXPECT_STREQ(order.back()->name(), "reference") << Name(cpu);
    }
  }
}

TEST(KernelChoice, TheOrderIsTheSameForEqualProblems) {
  for (const CpuClass cpu : kClasses) {
    EXPECT_EQ(NamesOf(KernelsInOrder(ProblemOf({.q_length = 9}), cpu)),
              NamesOf(KernelsInOrder(ProblemOf({.q_length = 9}), cpu)));
  }
}

TEST(KernelChoice, BackwardCallsHaveKernelsOfTheirOwn) {
  Problem problem = ProblemOf({});
  problem.gradients.from_output = true;
  const auto table = BackwardKernelTable();
  EXPECT_THAT(KernelsInOrder(problem, CpuClass::kAvx512),
              ::testing::ElementsAreArray(table.begin(), table.end()));
}

TEST(KernelChoice, APlanAsksInTheOrderOfItsMachine) {
  const Problem problem = ProblemOf({.q_length = 16, .kv_length = 16});
  const auto plan = MakePlan(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> asked;
  for (const KernelVerdict& verdict : (*plan)->verdicts) {
    asked.push_back(verdict.kernel);
  }
  EXPECT_EQ(asked, NamesOf(KernelsInOrder(problem, DetectCpuClass())));
  const auto first = std::find_if(
      (*plan)->verdicts.begin(), (*plan)->verdicts.end(),
      [](const KernelVerdict& verdict) { return verdict.why_not.empty(); });
  ASSERT_NE(first, (*plan)->verdicts.end());
  EXPECT_EQ((*plan)->kernel, first->kernel);
}

TEST(KernelChoice, ClassesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const CpuClass cpu : kClasses) names.insert(Name(cpu));
  EXPECT_EQ(names.size(), std::size(kClasses));
}

}  // namespace
}  // namespace attn
