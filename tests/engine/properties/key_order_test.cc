// Where no stage knows positions the order of keys does not matter; where a
// causal mask stands the future does not.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/reshaped.h"

namespace attn::testing {
namespace {

// Members that look at no position of a key.
const std::set<std::string> kWithoutPositions = {"score dot",
                                                 "score bilinear",
                                                 "score additive",
                                                 "score concat",
                                                 "score trilinear",
                                                 "score cosine",
                                                 "score distance",
                                                 "transform norm",
                                                 "bias constant",
                                                 "sparsifier threshold",
                                                 "normalizer softmax",
                                                 "normalizer softmax_plus",
                                                 "normalizer sparsemax",
                                                 "normalizer entmax",
                                                 "normalizer sigmoid",
                                                 "normalizer relu",
                                                 "normalizer divisive",
                                                 "normalizer hard",
                                                 "normalizer identity"};

// Close, but for rows that are near another choice.
void ExpectSameRows(const std::vector<double>& a, const std::vector<double>& b,
                    const oracle::VariantResult& want,
                    const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  const size_t width = a.size() / want.margin.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (want.margin[i / width] < 1e-3 || a[i] == b[i]) continue;
    ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + want.mass[i / width])) << what;
  }
}

void ExpectOrderDoesNotMatter(const oracle::VariantCase& call) {
  const std::vector<int64_t> order = {4, 0, 8, 2, 7, 1, 3, 6, 5};
  const auto moved = WithKeys(call, order);
  const auto want = oracle::AttendVariant(call);
  for (const std::string& kernel : AllKernelsOf(call)) {
    const VariantOutcome a = RunBy(kernel, call);
    const VariantOutcome b = RunBy(kernel, moved);
    ExpectSameRows(a.output, b.output, want, kernel + Describe(call));
    ExpectSameRows(a.lse, b.lse, want, kernel + Describe(call));
    if (a.weights.empty()) continue;
    std::vector<double> weights;
    for (size_t row = 0; row < a.rows.size(); ++row) {
      for (const int64_t key : order) {
        weights.push_back(a.weights[row * 9 + static_cast<size_t>(key)]);
      }
    }
    ExpectSameRows(weights, b.weights, want, kernel + Describe(call));
  }
}

TEST(KeyOrder, DoesNotMatterWhereNoStageKnowsPositions) {
  oracle::Random random(321);
  size_t members = 0;
  ForEachMember([&](const std::string& stage, const auto& generator) {
    if (!kWithoutPositions.contains(stage + " " + generator.name)) return;
    ++members;
    for (const AttentionShape& shape : kSmallShapes) {
      ExpectOrderDoesNotMatter(CaseAround(random, generator, shape));
    }
  });
  EXPECT_EQ(members, kWithoutPositions.size());
}

// Rows [0, count) of every head, bit by bit.
void ExpectSameFirstRows(const VariantOutcome& a, const VariantOutcome& b,
                         const oracle::VariantCase& call, int64_t count) {
  const AttentionShape& s = call.shape;
  for (const auto& [x, y, width] :
       {std::tuple{&a.output, &b.output, s.v_dim},
        std::tuple{&a.weights, &b.weights, s.kv_length},
        std::tuple{&a.lse, &b.lse, int64_t{1}}}) {
    EXPECT_EQ(RowsOf(*x, s.q_length, width, 0, count),
              RowsOf(*y, s.q_length, width, 0, count))
        << Describe(call);
  }
}

void ExpectFutureChangesNothing(const oracle::VariantCase& call) {
  const int64_t future = call.shape.kv_length - 3;
  auto changed = call;
  const AttentionShape& s = call.shape;
  for (size_t i = 0; i < changed.k.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / s.k_dim % s.kv_length;
    if (row >= future) changed.k[i] += 5;
  }
  for (size_t i = 0; i < changed.v.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / s.v_dim % s.kv_length;
    if (row >= future) changed.v[i] -= 5;
  }
  for (const std::string& kernel : AllKernelsOf(call)) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, kernel);
    ExpectSameFirstRows(RunBy(kernel, call), RunBy(kernel, changed), call,
                        future);
  }
}

// Every member that may stand beside a causal mask.
TEST(Causality, AFutureKeyChangesNothingWhateverStandsBeside) {
  oracle::Random random(322);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (AttentionShape square : kSmallShapes) {
      square.q_length = square.kv_length = square.v_dim = 8;
      auto call = CaseAround(random, generator, square);
      if (!IsLinear(call)) {
        call.spec.masks.emplace_back(CausalMask{Alignment::kTopLeft});
      } else {
        std::get<LinearNormalizer>(call.spec.normalizer).bidirectional = false;
      }
      ExpectFutureChangesNothing(call);
    }
  });
}

}  // namespace
}  // namespace attn::testing
