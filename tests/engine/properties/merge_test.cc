// Attention over disjoint ranges of keys, merged by (O, lse), is attention over
// all of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/reshaped.h"

namespace attn::testing {
namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// Output and lse of the parts together, by the definition.
struct Merged {
  std::vector<double> output;
  std::vector<double> lse;
};

double LogSum(const std::vector<double>& terms) {
  const double max = *std::max_element(terms.begin(), terms.end());
  if (max == kEmpty) return kEmpty;
  double sum = 0;
  for (const double x : terms) sum += std::exp(x - max);
  return max + std::log(sum);
}

Merged Merge(const std::vector<VariantOutcome>& parts, int64_t width) {
  Merged merged;
  for (size_t row = 0; row < parts[0].lse.size(); ++row) {
    std::vector<double> lses;
    for (const VariantOutcome& part : parts) lses.push_back(part.lse[row]);
    merged.lse.push_back(LogSum(lses));
    for (int64_t c = 0; c < width; ++c) {
      const size_t i =
          row * static_cast<size_t>(width) + static_cast<size_t>(c);
      double sum = 0;
      for (const VariantOutcome& part : parts) {
        if (part.lse[row] == kEmpty) continue;
        sum += std::exp(part.lse[row] - merged.lse[row]) * part.output[i];
      }
      merged.output.push_back(sum);
    }
  }
  return merged;
}

// A call with a dense mask of all keys as its last input, and as calls of
// shards of them; some shards may be without keys.
std::vector<oracle::VariantCase> ShardsOf(const oracle::VariantCase& call,
                                          int64_t count) {
  std::vector<oracle::VariantCase> shards;
  const int64_t keys = call.shape.kv_length;
  for (int64_t shard = 0; shard < count; ++shard) {
    std::vector<int64_t> range;
    for (int64_t key = shard * keys / count; key < (shard + 1) * keys / count;
         ++key) {
      range.push_back(key);
    }
    auto part = WithKeys(call, range);
    oracle::Parameter& mask = part.inputs.back();
    oracle::Parameter narrow = mask;
    narrow.data.clear();
    narrow.shape.back() = static_cast<int64_t>(range.size());
    for (size_t row = 0; row * static_cast<size_t>(keys) < mask.data.size();
         ++row) {
      for (const int64_t key : range) {
        narrow.data.push_back(mask.data[row * static_cast<size_t>(keys) +
                                        static_cast<size_t>(key)]);
      }
    }
    mask = narrow;
    shards.push_back(std::move(part));
  }
  return shards;
}

oracle::VariantCase MaskedCase(oracle::Random& random,
                               const oracle::MemberGenerator& score,
                               AttentionShape shape) {
  shape.kv_length = 37;
  auto call = CaseAround(random, score, shape);
  oracle::Parameter mask{
      DType::kBool, {2, 1, shape.q_length, shape.kv_length}, {}, true};
  for (int64_t i = 0; i < 2 * shape.q_length * shape.kv_length; ++i) {
    mask.data.push_back(oracle::Below(random, 10) < 4 ? 1 : 0);
  }
  // A row that sees nothing in any shard.
  std::fill_n(mask.data.begin(), shape.kv_length, 0);
  call.spec.masks.emplace_back(DenseMask{call.Add(std::move(mask))});
  return call;
}

void ExpectShardsGiveTheWhole(const oracle::VariantCase& call,
                              const std::string& kernel, int64_t count) {
  const VariantOutcome whole = RunBy(kernel, call);
  std::vector<VariantOutcome> parts;
  for (const auto& shard : ShardsOf(call, count)) {
    parts.push_back(RunBy(kernel, shard));
  }
  const Merged merged = Merge(parts, call.shape.v_dim);
  for (size_t i = 0; i < whole.output.size(); ++i) {
    ASSERT_NEAR(merged.output[i], whole.output[i], 1e-5)
        << kernel << ", " << count << " shards of " << Describe(call);
  }
  for (size_t row = 0; row < whole.lse.size(); ++row) {
    if (whole.lse[row] == kEmpty) {
      EXPECT_EQ(merged.lse[row], kEmpty);
      continue;
    }
    ASSERT_NEAR(merged.lse[row], whole.lse[row], 1e-5) << kernel;
  }
}

TEST(Merge, OfOneToSixteenShardsIsTheWholeForEveryScore) {
  oracle::Random random(351);
  ForEachMemberOf("score", [&](const auto& generator) {
    for (const AttentionShape& shape : kSmallShapes) {
      const auto call = MaskedCase(random, generator, shape);
      for (const std::string& kernel : AllKernelsOf(call)) {
        for (int64_t count = 1; count <= 16; ++count) {
          ExpectShardsGiveTheWhole(call, kernel, count);
        }
      }
    }
  });
}

// A sink joins once, after merging: lse is over keys alone.
void ExpectASinkJoins(const oracle::VariantCase& call) {
  const std::vector<double> sinks = {-1, 0, 2, 0.5};
  auto with_sink = call;
  with_sink.spec.normalizer =
      SoftmaxNormalizer{with_sink.Add({DType::kF32, {4}, sinks, false})};
  for (const std::string& kernel : AllKernelsOf(call)) {
    std::vector<VariantOutcome> parts;
    for (const auto& shard : ShardsOf(call, 5)) {
      parts.push_back(RunBy(kernel, shard));
    }
    const Merged merged = Merge(parts, call.shape.v_dim);
    const VariantOutcome want = RunBy(kernel, with_sink);
    for (size_t i = 0; i < want.output.size(); ++i) {
      const size_t row = i / static_cast<size_t>(call.shape.v_dim);
      const double sink = sinks[row / 7 % 4];
      const double lse = LogSum({merged.lse[row], sink});
      const double share = std::exp(merged.lse[row] - lse);
      ASSERT_NEAR(merged.output[i] * share, want.output[i], 1e-5) << kernel;
      ASSERT_NEAR(want.lse_with_sink[row], lse, 1e-5) << kernel;
    }
  }
}

TEST(Merge, ASinkJoinsTheMergedRow) {
  oracle::Random random(352);
  for (const AttentionShape& shape : kSmallShapes) {
    ExpectASinkJoins(
        MaskedCase(random, *oracle::FindGenerator("score", "dot"), shape));
  }
}

}  // namespace
}  // namespace attn::testing
