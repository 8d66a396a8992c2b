// What rows of weights sum to, and what a shift of the logits does to them.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

// The sum of the weights of each row. Values of 1 have it for their output.
template <typename Visit>
void ForEachRow(oracle::VariantCase call, Visit visit) {
  std::fill(call.v.begin(), call.v.end(), 1.0);
  const auto keys = static_cast<size_t>(call.shape.kv_length);
  const auto width = static_cast<size_t>(call.shape.v_dim);
  for (const std::string& kernel : AllKernelsOf(call)) {
    const VariantOutcome got = RunBy(kernel, call);
    for (size_t row = 0; row < got.rows.size(); ++row) {
      visit(kernel, got.rows[row], got.output[row * width]);
      if (got.weights.empty()) continue;
      const auto begin = got.weights.begin() + static_cast<int64_t>(row * keys);
      visit(kernel, got.rows[row],
            std::accumulate(begin, begin + call.shape.kv_length, 0.0));
    }
  }
}

const std::set<std::string> kSumToOne = {"sparsemax", "entmax", "hard"};

TEST(RowSums, AreOneWhereTheNormalizerSaysSo) {
  oracle::Random random(311);
  ForEachMemberOf("normalizer", [&](const auto& generator) {
    if (!kSumToOne.contains(generator.name)) return;
    for (int i = 0; i < 8; ++i) {
      const AttentionShape& shape = kSmallShapes[i / 2 % 2];
      const auto call = CaseAround(random, generator, shape, i % 2 == 1);
      ForEachRow(call, [&](const std::string& kernel, const auto& statistics,
                           double sum) {
        const double want = statistics.visible_keys == 0 ? 0 : 1;
        EXPECT_NEAR(sum, want, 2e-6) << kernel << Describe(call);
      });
    }
  });
}

TEST(RowSums, AreOneUnderSoftmaxWithEverySparsifierAndMask) {
  oracle::Random random(312);
  for (const char* stage : {"sparsifier", "mask", "bias", "score"}) {
    ForEachMemberOf(stage, [&](const auto& generator) {
      for (const AttentionShape& shape : kSmallShapes) {
        const auto call = CaseAround(random, generator, shape, true);
        ForEachRow(call, [&](const std::string& kernel, const auto& statistics,
                             double sum) {
          const double want = statistics.visible_keys == 0 ? 0 : 1;
          EXPECT_NEAR(sum, want, 2e-6) << kernel << Describe(call);
        });
      }
    });
  }
}

TEST(RowSums, AreBelowOneWhereSomethingElseTakesAShare) {
  oracle::Random random(313);
  for (const char* name : {"softmax", "softmax_plus", "divisive"}) {
    for (int i = 0; i < 8; ++i) {
      const auto call =
          CaseAround(random, *oracle::FindGenerator("normalizer", name),
                     kSmallShapes[i % 2]);
      ForEachRow(call, [&](const std::string& kernel, const auto& statistics,
                           double sum) {
        EXPECT_LE(sum, 1 + 2e-6) << kernel << Describe(call);
        // What a sink or n does not take, the keys have.
        if (std::string(name) == "divisive") return;
        EXPECT_NEAR(sum, std::exp(statistics.lse - statistics.lse_with_sink),
                    2e-6)
            << kernel << Describe(call);
      });
    }
  }
}

TEST(Shift, OfAllLogitsChangesNoWeightOfASoftmaxLikeNormalizer) {
  oracle::Random random(314);
  for (const char* name : {"sparsemax", "entmax", "hard", "local"}) {
    for (const double shift : {-40.0, 3.0, 40.0}) {
      auto call = CaseAround(random, *oracle::FindGenerator("normalizer", name),
                             kSmallShape);
      auto shifted = call;
      const std::vector<double> values(static_cast<size_t>(call.shape.q_heads),
                                       shift);
      shifted.spec.biases.emplace_back(ConstantBias{
          shifted.Add({DType::kF32, {call.shape.q_heads}, values, false})});
      const auto want = oracle::AttendVariant(call);
      for (const std::string& kernel : AllKernelsOf(call)) {
        const VariantOutcome a = RunBy(kernel, call);
        const VariantOutcome b = RunBy(kernel, shifted);
        for (size_t i = 0; i < a.weights.size(); ++i) {
          const size_t row = i / static_cast<size_t>(call.shape.kv_length);
          if (want.margin[row] < 1e-3) continue;
          ASSERT_NEAR(a.weights[i], b.weights[i], 4e-5)
              << kernel << Describe(call);
        }
      }
    }
  }
}

void ExpectLseShifts(const oracle::VariantCase& call) {
  auto shifted = call;
  shifted.spec.biases.emplace_back(
      ConstantBias{shifted.Add({DType::kF32, {4}, {-30, 5, 0, 30}, false})});
  for (const std::string& kernel : AllKernelsOf(call)) {
    const VariantOutcome a = RunBy(kernel, call);
    const VariantOutcome b = RunBy(kernel, shifted);
    const double shift[] = {-30, 5, 0, 30};
    for (size_t row = 0; row < a.lse.size(); ++row) {
      const size_t head = row / 7 % 4;
      EXPECT_NEAR(b.lse[row], a.lse[row] + shift[head], 1e-5) << kernel;
      EXPECT_NEAR(b.rows[row].entropy, a.rows[row].entropy, 1e-5) << kernel;
    }
    for (size_t i = 0; i < a.output.size(); ++i) {
      EXPECT_NEAR(a.output[i], b.output[i], 2e-5) << kernel;
    }
  }
}

TEST(Shift, OfAllLogitsShiftsTheLseOfASoftmaxAndNothingElse) {
  oracle::Random random(315);
  for (const AttentionShape& shape : kSmallShapes) {
    oracle::VariantCase call;
    call.shape = shape;
    oracle::FillTensors(random, call, DType::kF32);
    ExpectLseShifts(call);
  }
}

}  // namespace
}  // namespace attn::testing
