// A sequence attended at once is the same as token by token: each query against
// the keys up to its own, the diagonal at the bottom right.
#include <cmath>

#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/reshaped.h"

namespace attn::testing {
namespace {

constexpr int64_t kTokens = 11;

// Sets the alignment of every mask that has one. False: the mask looks at rows
// of the tensors, not at positions.
bool AlignBottomRight(AttentionSpec& spec) {
  bool by_position = true;
  for (MaskSpec& mask : spec.masks) {
    std::visit(
        [&by_position](auto& member) {
          if constexpr (requires { member.alignment; }) {
            member.alignment = Alignment::kBottomRight;
          } else {
            by_position = false;
          }
        },
        static_cast<MaskSpec::variant&>(mask));
  }
  return by_position;
}

// Whether nothing of the spec is tied to rows of this very call.
bool KnowsOnlyPositions(const AttentionSpec& spec) {
  for (const BiasSpec& bias : spec.biases) {
    if (std::holds_alternative<DenseBias>(bias) ||
        std::holds_alternative<ContinuousPositionBias>(bias)) {
      return false;
    }
  }
  for (const TransformSpec& transform : spec.transforms) {
    const auto* rotary = std::get_if<RotaryTransform>(&transform);
    if (rotary != nullptr && rotary->query_positions) return false;
  }
  return true;
}

// The call's token `i` as a step: one query, the keys up to its own.
oracle::VariantCase StepOf(const oracle::VariantCase& call, int64_t i) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; key <= i; ++key) keys.push_back(key);
  auto step = WithKeys(WithQueries(call, i, 1), keys);
  for (TransformSpec& transform : step.spec.transforms) {
    auto* rotary = std::get_if<RotaryTransform>(&transform);
    if (rotary != nullptr) rotary->query_offset += i;
  }
  return step;
}

void ExpectStepsGiveTheWhole(const oracle::VariantCase& call) {
  const oracle::VariantResult want = oracle::AttendVariant(call);
  const AttentionShape& s = call.shape;
  for (const std::string& kernel : AllKernelsOf(call)) {
    const VariantOutcome whole = RunBy(kernel, call);
    for (int64_t i = 0; i < s.q_length; ++i) {
      const VariantOutcome step = RunBy(kernel, StepOf(call, i));
      const auto output = RowsOf(whole.output, s.q_length, s.v_dim, i, 1);
      const auto margin = RowsOf(want.margin, s.q_length, 1, i, 1);
      const auto mass = RowsOf(want.mass, s.q_length, 1, i, 1);
      for (size_t n = 0; n < output.size(); ++n) {
        const size_t row = n / static_cast<size_t>(s.v_dim);
        if (margin[row] < 1e-3) continue;
        ASSERT_NEAR(step.output[n], output[n], 1e-5 * (1 + mass[row]))
            << kernel << ", token " << i << " of " << Describe(call);
      }
      const auto lse = RowsOf(whole.lse, s.q_length, 1, i, 1);
      for (size_t row = 0; row < lse.size(); ++row) {
        if (margin[row] < 1e-3 || step.lse[row] == lse[row]) continue;
        ASSERT_NEAR(step.lse[row], lse[row], 1e-5 * (1 + std::abs(lse[row])))
            << kernel << ", token " << i << " of " << Describe(call);
      }
    }
  }
}

TEST(Steps, GiveWhatTheWholeSequenceGivesForEveryMemberThatKnowsPositions) {
  oracle::Random random(341);
  size_t members = 0;
  ForEachMember([&](const std::string&, const auto& generator) {
    for (AttentionShape square : kSmallShapes) {
      // Eight rows of a KV head at most are decoding at once.
      square.q_length = square.kv_heads == square.q_heads ? 8 : kTokens;
      square.kv_length = square.q_length;
      auto call = CaseAround(random, generator, square);
      if (IsLinear(call) || !AlignBottomRight(call.spec) ||
          !KnowsOnlyPositions(call.spec)) {
        continue;
      }
      call.spec.masks.emplace_back(CausalMask{Alignment::kBottomRight});
      ++members;
      ExpectStepsGiveTheWhole(call);
    }
  });
  EXPECT_GT(members, 60U);
}

// The tensors [.., Sk, ..] of gates and steps, token `i` of them.
oracle::VariantCase LinearStep(const oracle::VariantCase& call, int64_t i,
                               const std::vector<double>& state) {
  auto step = WithKeys(WithQueries(call, i, 1), {i});
  const AttentionShape& s = call.shape;
  auto& linear = std::get<LinearNormalizer>(step.spec.normalizer);
  for (const auto& input : {linear.decay, linear.beta}) {
    if (!input) continue;
    oracle::Parameter& tensor = step.inputs[*input];
    tensor.data = RowsOf(tensor.data, s.kv_length, tensor.shape[2], i, 1);
    tensor.shape[1] = 1;
  }
  linear.state = step.Add(
      {DType::kF64, {s.batch, s.kv_heads, s.k_dim, s.v_dim}, state, true});
  return step;
}

TEST(Steps, CarryTheStateOfLinearAttention) {
  oracle::Random random(342);
  AttentionShape square = kSmallShape;
  square.q_length = kTokens;
  square.kv_length = kTokens;
  for (int trial = 0; trial < 20; ++trial) {
    const auto& generator = *oracle::FindGenerator("normalizer", "linear");
    auto call = CaseAround(random, generator, square, false, DType::kF64);
    auto& linear = std::get<LinearNormalizer>(call.spec.normalizer);
    linear.bidirectional = false;
    linear.normalize = false;
    const AttentionShape& s = call.shape;
    const VariantOutcome whole = VariantRun(call, DType::kF64).Run("linear");
    std::vector<double> state(
        static_cast<size_t>(s.batch * s.kv_heads * s.k_dim * s.v_dim));
    if (linear.state) state = call.inputs[*linear.state].data;
    for (int64_t i = 0; i < kTokens; ++i) {
      const VariantOutcome step =
          VariantRun(LinearStep(call, i, state), DType::kF64).Run("linear");
      EXPECT_EQ(step.output, RowsOf(whole.output, kTokens, s.v_dim, i, 1))
          << "token " << i << " of " << Describe(call);
      state = step.state;
    }
    EXPECT_EQ(state, whole.state);
  }
}

}  // namespace
}  // namespace attn::testing
