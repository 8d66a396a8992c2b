// A row that sees no key: out 0, weights 0, lse -infinity, entropy 0, in every
// normalizer, by every kernel and in every type.
#include <cmath>
#include <functional>
#include <limits>

#include "tests/engine/properties/one_member.h"

namespace attn::testing {
namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16,
                            DType::kF64};

// Takes every key away from rows of a case, and says from which.
struct Emptying {
  const char* name;
  std::function<void(oracle::VariantCase&)> change;
  // By batch entry and query.
  std::function<bool(const AttentionShape&, int64_t, int64_t)> empty;
  // Whether linear attention, which takes no masks, can be emptied so.
  bool by_length = false;
};

void MaskAll(oracle::VariantCase& call) {
  call.spec.masks.emplace_back(
      DenseMask{call.Add({DType::kBool, {1}, {0}, false})});
}

void ExcludeByBias(oracle::VariantCase& call) {
  call.spec.biases.emplace_back(
      DenseBias{call.Add({DType::kF32, {1}, {kEmpty}, false})});
}

bool All(const AttentionShape&, int64_t, int64_t) { return true; }

const Emptying kEmptyings[] = {
    {"a mask of false", MaskAll, All},
    {"a bias of -inf", ExcludeByBias, All},
    {"no key of an entry",
     [](oracle::VariantCase& call) {
       call.kv_lengths = {0, 5};
     },
     [](const AttentionShape&, int64_t b, int64_t) { return b == 0; }, true},
    {"no query of an entry",
     [](oracle::VariantCase& call) {
       call.q_lengths = {3, 0};
     },
     [](const AttentionShape&, int64_t b, int64_t i) {
       return b == 1 || i >= 3;
     },
     true},
    {"queries before the first key",
     [](oracle::VariantCase& call) {
       call.kv_lengths = {4, 4};
       call.spec.masks.emplace_back(CausalMask{Alignment::kBottomRight});
     },
     [](const AttentionShape& s, int64_t, int64_t i) {
       return i < s.q_length - 4;
     }},
    {"a window beyond the keys",
     [](oracle::VariantCase& call) {
       call.kv_lengths = {2, 2};
       call.spec.masks.emplace_back(WindowMask{0, 0, Alignment::kTopLeft});
     },
     [](const AttentionShape&, int64_t, int64_t i) { return i >= 2; }},
};

void ExpectEmptyRow(const VariantOutcome& got, const oracle::VariantCase& call,
                    size_t row) {
  for (int64_t c = 0; c < call.shape.v_dim; ++c) {
    ASSERT_EQ(got.output[row * static_cast<size_t>(call.shape.v_dim) +
                         static_cast<size_t>(c)],
              0);
  }
  const auto keys = static_cast<size_t>(call.shape.kv_length);
  for (size_t j = 0; j < keys && !got.weights.empty(); ++j) {
    ASSERT_EQ(got.weights[row * keys + j], 0);
    ASSERT_EQ(got.masked_logits[row * keys + j], kEmpty);
  }
  EXPECT_EQ(got.lse[row], kEmpty);
  EXPECT_EQ(got.rows[row].lse, kEmpty);
  EXPECT_EQ(got.rows[row].entropy, 0);
  EXPECT_EQ(got.rows[row].peak_weight, 0);
  EXPECT_EQ(got.rows[row].top_key, -1);
  EXPECT_EQ(got.rows[row].visible_keys, 0);
}

void ExpectEmptyRows(const oracle::VariantCase& call, const Emptying& emptying,
                     DType dtype) {
  const AttentionShape& s = call.shape;
  for (const std::string& kernel : AllKernelsOf(call, dtype)) {
    const ::testing::ScopedTrace trace(
        __FILE__, __LINE__, kernel + ", " + emptying.name + Describe(call));
    const VariantOutcome got = RunBy(kernel, call, dtype);
    for (int64_t n = 0; n < s.batch * s.q_heads * s.q_length; ++n) {
      const int64_t b = n / s.q_length / s.q_heads;
      if (!emptying.empty(s, b, n % s.q_length)) continue;
      ExpectEmptyRow(got, call, static_cast<size_t>(n));
    }
  }
}

// A state that a call brings is seen by every row.
bool CanBeEmptied(const oracle::VariantCase& call, const Emptying& emptying) {
  if (!IsLinear(call)) return true;
  return emptying.by_length &&
         !std::get<LinearNormalizer>(call.spec.normalizer).state;
}

TEST(EmptyRows, GiveNothingInEveryNormalizerAndType) {
  oracle::Random random(361);
  for (const Emptying& emptying : kEmptyings) {
    for (const DType dtype : kTypes) {
      ForEachMemberOf("normalizer", [&](const auto& generator) {
        for (const AttentionShape& shape : kSmallShapes) {
          auto call = CaseAround(random, generator, shape, false, dtype);
          if (!CanBeEmptied(call, emptying)) continue;
          emptying.change(call);
          ExpectEmptyRows(call, emptying, dtype);
        }
      });
    }
  }
}

TEST(EmptyRows, GiveNothingWhateverStageStandsBeside) {
  oracle::Random random(362);
  for (const oracle::StageGenerators& stage : oracle::Generators()) {
    if (std::string(stage.stage) == "normalizer") continue;
    for (const oracle::MemberGenerator& generator : stage.members) {
      for (const Emptying& emptying : kEmptyings) {
        for (const AttentionShape& shape : kSmallShapes) {
          auto call = CaseAround(random, generator, shape);
          emptying.change(call);
          // A square case has other rows before the first key.
          ExpectEmptyRows(call, emptying, DType::kF32);
        }
      }
    }
  }
}

// ln sum exp of what joins a row beside its keys, none.
void ExpectTheSinksLse(const oracle::VariantCase& call,
                       const Emptying& emptying) {
  const AttentionShape& s = call.shape;
  const oracle::VariantResult want = oracle::AttendVariant(call);
  for (const std::string& kernel : AllKernelsOf(call)) {
    const VariantOutcome got = RunBy(kernel, call);
    for (int64_t n = 0; n < s.batch * s.q_heads * s.q_length; ++n) {
      const int64_t b = n / s.q_length / s.q_heads;
      if (!emptying.empty(s, b, n % s.q_length)) continue;
      const double sinks = want.lse_with_sink[static_cast<size_t>(n)];
      const double lse = got.lse_with_sink[static_cast<size_t>(n)];
      EXPECT_TRUE(lse == sinks || std::abs(lse - sinks) < 1e-6)
          << kernel << " gives " << lse << ", not " << sinks << ": "
          << emptying.name << " " << Describe(call);
    }
  }
}

TEST(EmptyRows, HaveTheSinksLseWhereSinksJoin) {
  oracle::Random random(363);
  for (const char* name : {"softmax", "softmax_plus"}) {
    for (const Emptying& emptying : kEmptyings) {
      for (const AttentionShape& shape : kSmallShapes) {
        auto call = CaseAround(
            random, *oracle::FindGenerator("normalizer", name), shape);
        emptying.change(call);
        ExpectTheSinksLse(call, emptying);
      }
    }
  }
}

TEST(EmptyRows, GiveNothingWhereThereAreNoKeysAtAll) {
  oracle::Random random(364);
  AttentionShape none = kFewRowsShape;
  none.kv_length = 0;
  const Emptying emptying{"no keys", nullptr, All, true};
  for (const char* name :
       {"softmax", "softmax_plus", "sparsemax", "entmax", "sigmoid", "relu",
        "divisive", "hard", "local", "identity"}) {
    const auto call =
        CaseAround(random, *oracle::FindGenerator("normalizer", name), none);
    ExpectEmptyRows(call, emptying, DType::kF32);
  }
}

}  // namespace
}  // namespace attn::testing
