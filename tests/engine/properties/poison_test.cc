// What is excluded is never read: NaN and infinities in masked keys and values,
// beyond lengths and in padded queries reach no output.
#include <limits>

#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/reshaped.h"

namespace attn::testing {
namespace {

constexpr double kPoisons[] = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()};
constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

// Whether the query sees the key.
using Sight = std::vector<bool>;  // [B, Hq, Sq, Sk]

Sight SightOf(const oracle::VariantCase& call) {
  const AttentionShape& s = call.shape;
  Sight sight;
  for (int64_t n = 0; n < s.batch * s.q_heads * s.q_length; ++n) {
    oracle::Pair at{n / s.q_length / s.q_heads, n / s.q_length % s.q_heads,
                    n % s.q_length, 0};
    for (at.key = 0; at.key < s.kv_length; ++at.key) {
      const bool causal =
          !IsLinear(call) ||
          std::get<LinearNormalizer>(call.spec.normalizer).bidirectional ||
          at.key <= at.query;
      sight.push_back(causal && oracle::Visible(call, at));
    }
  }
  return sight;
}

// Poisons key `key` of every KV head of an entry, k and v.
oracle::VariantCase PoisonKey(const oracle::VariantCase& call, int64_t b,
                              int64_t key, double poison) {
  oracle::VariantCase bad = call;
  const AttentionShape& s = call.shape;
  for (int64_t h = 0; h < s.kv_heads; ++h) {
    const int64_t row = (b * s.kv_heads + h) * s.kv_length + key;
    for (int64_t c = 0; c < s.k_dim; ++c) {
      bad.k[static_cast<size_t>(row * s.k_dim + c)] = poison;
    }
    for (int64_t c = 0; c < s.v_dim; ++c) {
      bad.v[static_cast<size_t>(row * s.v_dim + c)] = poison;
    }
  }
  return bad;
}

// Row n of every per-row output.
VariantOutcome RowOf(const VariantOutcome& all, const AttentionShape& s,
                     int64_t n) {
  const auto row = [n](const std::vector<double>& values, int64_t width) {
    if (values.empty()) return values;
    return std::vector<double>(values.begin() + n * width,
                               values.begin() + (n + 1) * width);
  };
  VariantOutcome one;
  one.output = row(all.output, s.v_dim);
  one.masked_logits = row(all.masked_logits, s.kv_length);
  one.weights = row(all.weights, s.kv_length);
  one.lse = row(all.lse, 1);
  one.lse_with_sink = row(all.lse_with_sink, 1);
  one.rows = {all.rows[static_cast<size_t>(n)]};
  return one;
}

// Every row that does not see the key has the bits it has without the poison.
void ExpectPoisonStaysHidden(const oracle::VariantCase& call, double poison,
                             DType dtype) {
  const AttentionShape& s = call.shape;
  const Sight sight = SightOf(call);
  for (const std::string& kernel : AllKernelsOf(call, dtype)) {
    const VariantOutcome clean = RunBy(kernel, call, dtype);
    for (int64_t key = 0; key < s.kv_length; key += 2) {
      const int64_t b = key / 2 % s.batch;
      const VariantOutcome got =
          RunBy(kernel, PoisonKey(call, b, key, poison), dtype);
      for (int64_t n = 0; n < s.batch * s.q_heads * s.q_length; ++n) {
        const bool own_entry = n / s.q_length / s.q_heads == b;
        if (own_entry && sight[static_cast<size_t>(n * s.kv_length + key)]) {
          continue;
        }
        ASSERT_TRUE(RowOf(got, s, n).SameBits(RowOf(clean, s, n)))
            << kernel << ", " << poison << " in key " << key << " reaches row "
            << n << " of " << Describe(call);
      }
    }
  }
}

void AddHalfMask(oracle::Random& random, oracle::VariantCase& call) {
  if (IsLinear(call)) {
    call.kv_lengths = {4, 6};
    return;
  }
  oracle::FindGenerator("mask", "dense")->add(random, call);
}

void ExpectSameBits(const oracle::VariantCase& bad,
                    const oracle::VariantCase& call) {
  for (const std::string& kernel : AllKernelsOf(call)) {
    EXPECT_TRUE(RunBy(kernel, bad).SameBits(RunBy(kernel, call)))
        << kernel << " for " << Describe(call);
  }
}

TEST(Poison, BehindEveryMaskReachesNoRowThatDoesNotSeeIt) {
  oracle::Random random(371);
  ForEachMemberOf("mask", [&](const auto& generator) {
    for (const double poison : kPoisons) {
      for (const DType dtype : kTypes) {
        for (const AttentionShape& shape : kSmallShapes) {
          for (const bool ragged : {false, true}) {
            ExpectPoisonStaysHidden(
                CaseAround(random, generator, shape, ragged, dtype), poison,
                dtype);
          }
        }
      }
    }
  });
}

TEST(Poison, BehindAMaskReachesNoRowOfAnyMember) {
  oracle::Random random(372);
  for (const oracle::StageGenerators& stage : oracle::Generators()) {
    if (std::string(stage.stage) == "mask") continue;
    for (const oracle::MemberGenerator& generator : stage.members) {
      for (const double poison : kPoisons) {
        for (const DType dtype : kTypes) {
          for (const AttentionShape& shape : kSmallShapes) {
            auto call = CaseAround(random, generator, shape, false, dtype);
            AddHalfMask(random, call);
            ExpectPoisonStaysHidden(call, poison, dtype);
          }
        }
      }
    }
  }
}

TEST(Poison, InPaddedQueriesReachesNoOtherRow) {
  oracle::Random random(373);
  ForEachMember([&](const std::string&, const auto& generator) {
    for (const AttentionShape& shape : kSmallShapes) {
      auto call = CaseAround(random, generator, shape);
      const AttentionShape& s = call.shape;
      call.q_lengths = {s.q_length / 2, s.q_length};
      auto bad = call;
      for (int64_t row = 0; row < s.q_heads * s.q_length; ++row) {
        if (row % s.q_length < s.q_length / 2) continue;
        for (int64_t c = 0; c < s.q_dim; ++c) {
          bad.q[static_cast<size_t>(row * s.q_dim + c)] = kPoisons[0];
        }
      }
      ExpectSameBits(bad, call);
    }
  });
}

// Where a mask excludes, a dense bias is not read either.
TEST(Poison, InABiasBehindAMaskReachesNothing) {
  oracle::Random random(374);
  ForEachMemberOf("mask", [&](const auto& generator) {
    for (const AttentionShape& shape : kSmallShapes) {
      auto call = CaseAround(random, generator, shape);
      const AttentionShape& s = call.shape;
      const Sight sight = SightOf(call);
      auto bias = oracle::NormalParameter(
          random, {s.batch, s.q_heads, s.q_length, s.kv_length});
      auto bad = call;
      call.spec.biases.emplace_back(DenseBias{call.Add(bias)});
      for (size_t i = 0; i < sight.size(); ++i) {
        if (!sight[i]) bias.data[i] = kPoisons[i % 3];
      }
      bad.spec.biases.emplace_back(DenseBias{bad.Add(bias)});
      ExpectSameBits(bad, call);
    }
  });
}

}  // namespace
}  // namespace attn::testing
