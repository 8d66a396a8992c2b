// A few queries against many keys: every kernel, those made for it too.
#include <cmath>
#include <limits>

#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Attend;
using oracle::Case;
using oracle::Close;
using oracle::Random;
using oracle::Result;
using oracle::Tolerance;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPoisons[] = {kNaN, kInfinity, -kInfinity};
// Three chunks of the decode kernel, the last of them short.
constexpr int64_t kManyKeys = 2 * 2048 + 137;
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct Extents {
  int64_t q_heads = 4;
  int64_t kv_heads = 1;
  int64_t q_length = 1;
  int64_t kv_length = kManyKeys;
  int64_t qk_dim = 9;
  int64_t v_dim = 7;
};

Case CaseOf(const Extents& extents, uint64_t seed = 1) {
  Random random(seed);
  Case call;
  call.batch = 2;
  call.q_heads = extents.q_heads;
  call.kv_heads = extents.kv_heads;
  call.q_length = extents.q_length;
  call.kv_length = extents.kv_length;
  call.qk_dim = extents.qk_dim;
  call.v_dim = extents.v_dim;
  FillTensors(random, call);
  return call;
}

class FewQueriesTest : public EveryKernel {
 protected:
  void ExpectAgreement(Case call, CallOptions options = {}) const {
    RoundTo(options.dtype, call);
    ASSERT_TRUE(Supports(EngineCall(call, Options(options))));
    const Outcome got = Run(call, options);
    const Result want = Attend(call);
    // Of sums in F32 over all the keys, and of the output's type.
    const double rounding = options.output_dtype == DType::kF32 ? 0 : 0x1p-8;
    EXPECT_TRUE(Close(got.output, want.output, {4e-5, 4e-5 + rounding}));
    EXPECT_TRUE(Close(got.lse, want.lse, {2e-5, 2e-5}));
    for (size_t i = 0; i < got.rows.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "row " << i);
      EXPECT_EQ(got.rows[i].visible_keys, want.visible_keys[i]);
      EXPECT_NEAR(got.rows[i].entropy, want.entropy[i], 1e-4);
      EXPECT_NEAR(got.rows[i].peak_weight, want.peak_weight[i], 2e-5);
      ASSERT_EQ(got.rows[i].top_key < 0, want.top_key[i] < 0);
      if (want.top_key[i] < 0) continue;
      const auto top = static_cast<size_t>(got.rows[i].top_key);
      EXPECT_NEAR(want.weights[i * static_cast<size_t>(call.kv_length) + top],
                  want.peak_weight[i], 2e-5);
    }
  }

  // Poison in K and V of keys that nobody sees changes no bit.
  void ExpectUntouched(const Case& call, const std::vector<int64_t>& keys,
                       DType dtype) const {
    Case rounded = call;
    RoundTo(dtype, rounded);
    const CallOptions options{.dtype = dtype, .output_dtype = dtype};
    Outcome clean = Run(rounded, options);
    clean.logits.clear();
    for (const double poison : kPoisons) {
      Case poisoned = rounded;
      for (const int64_t key : keys) {
        poisoned.k[static_cast<size_t>(key * call.qk_dim + 4)] = poison;
        poisoned.v[static_cast<size_t>(key * call.v_dim)] = poison;
        poisoned.v[static_cast<size_t>(key * call.v_dim + 6)] = poison;
      }
      Outcome got = Run(poisoned, options);
      got.logits.clear();
      EXPECT_TRUE(got.SameBits(clean)) << Name(dtype) << ", " << poison;
      EXPECT_EQ(got.nonfinite_outputs, 0);
      // A kernel need not look at keys that it never reads.
      const auto count = static_cast<int64_t>(keys.size());
      EXPECT_LE(got.nonfinite_k, count);
      EXPECT_LE(got.nonfinite_v, 2 * count);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, FewQueriesTest, AllKernels(1), KernelName);

TEST_P(FewQueriesTest, GroupsOfHeadsAgreeWithTheOracle) {
  for (const int64_t group : {1, 2, 3, 4, 5, 8, 16}) {
    for (const int64_t kv_heads : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << kv_heads << " groups of " << group);
      ExpectAgreement(CaseOf({.q_heads = group * kv_heads,
                              .kv_heads = kv_heads,
                              .kv_length = 300}));
    }
  }
}

TEST_P(FewQueriesTest, AwkwardWidthsAgreeWithTheOracle) {
  for (const int64_t width : {1, 7, 16, 31, 33, 64, 65, 96, 128, 192}) {
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(::testing::Message() << width << ", " << Name(dtype));
      ExpectAgreement(
          CaseOf({.kv_length = 77, .qk_dim = width, .v_dim = width + 2}),
          {.dtype = dtype, .output_dtype = dtype});
    }
  }
}

TEST_P(FewQueriesTest, AwkwardLengthsAgreeWithTheOracle) {
  for (const int64_t keys : {1, 3, 511, 512, 513, 2047, 2048, 2049, 4237}) {
    SCOPED_TRACE(::testing::Message() << keys << " keys");
    ExpectAgreement(CaseOf({.kv_length = keys}));
  }
}

TEST_P(FewQueriesTest, LayoutsAgreeWithTheOracle) {
  for (const Layout layout : {Layout::kBshd, Layout::kBhds}) {
    for (const DType dtype : kTypes) {
      ExpectAgreement(CaseOf({.q_heads = 6, .kv_heads = 3, .kv_length = 600}),
                      {.dtype = dtype, .layout = layout});
    }
  }
}

TEST_P(FewQueriesTest, StagesOnALongCacheAgreeWithTheOracle) {
  Case call = CaseOf({.q_heads = 4, .kv_heads = 2, .q_length = 3});
  Random random(5);
  call.bands = {{.left = 2500, .right = 0, .bottom_right = true}};
  ExpectAgreement(call);
  call.softcap = 3.0;
  call.temperatures = {0.5};
  call.dense_masks = {oracle::RandomMask(random, call, 0.4)};
  call.alibi_biases = {{}};
  ExpectAgreement(call);
  call.kv_lengths = {kManyKeys - 1000, 1500};
  call.q_lengths = {3, 1};
  ExpectAgreement(call);
}

TEST_P(FewQueriesTest, RandomSpecsAgreeWithTheOracle) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    Case call = oracle::RandomCase(random);
    if (!Supports(EngineCall(call, Options()))) continue;
    RoundTo(DType::kF32, call);
    ExpectAgreement(call);
  }
}

TEST_P(FewQueriesTest, LogitsFarApartInDifferentChunksKeepTheirDigits) {
  Case call = CaseOf({.q_heads = 1});
  // The largest logit lies in the first chunk, or in the last.
  for (const int64_t key : {5, 4200}) {
    Case peaked = call;
    peaked.scale = 1;
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t c = 0; c < call.qk_dim; ++c) {
        const auto of_key = [&](int64_t j) {
          return static_cast<size_t>((b * kManyKeys + j) * call.qk_dim + c);
        };
        peaked.k[of_key(key)] =
            40 * call.q[static_cast<size_t>(b * call.qk_dim + c)];
      }
    }
    ExpectAgreement(peaked);
  }
}

TEST_P(FewQueriesTest, NumberOfWorkersDoesNotMatter) {
  Engine one({.workers = 1});
  Engine three({.workers = 3});
  for (const DType dtype : kTypes) {
    Case call = CaseOf({.q_heads = 8, .kv_heads = 2, .qk_dim = 33});
    RoundTo(dtype, call);
    const EngineCall engine_call(
        call, Options({.dtype = dtype, .output_dtype = dtype}));
    const Outcome alone = engine_call.RunBackwards(kernel());
    EXPECT_TRUE(engine_call.Run(one, kernel().name()).SameBits(alone));
    EXPECT_TRUE(engine_call.Run(three, kernel().name()).SameBits(alone));
  }
}

TEST_P(FewQueriesTest, EntryOfABatchHasTheBitsOfACallOfItsOwn) {
  Case call = CaseOf({});
  RoundTo(DType::kF32, call);
  call.kv_lengths = {kManyKeys, 2100};
  const Outcome both = Run(call);
  for (int64_t b = 0; b < 2; ++b) {
    const auto entry = [b](const std::vector<double>& values) {
      const auto half = static_cast<int64_t>(values.size()) / 2;
      return std::vector<double>(values.begin() + b * half,
                                 values.begin() + (b + 1) * half);
    };
    Case one = call;
    one.batch = 1;
    one.q = entry(call.q);
    one.k = entry(call.k);
    one.v = entry(call.v);
    one.kv_lengths = {call.kv_lengths[static_cast<size_t>(b)]};
    const Outcome got = Run(one);
    EXPECT_EQ(got.output, entry(both.output));
    EXPECT_EQ(got.lse, entry(both.lse));
  }
}

TEST_P(FewQueriesTest, PoisonBehindAMaskReachesNothing) {
  Case call = CaseOf({.q_length = 2});
  call.batch = 1;
  call.q.resize(call.q.size() / 2);
  call.k.resize(call.k.size() / 2);
  call.v.resize(call.v.size() / 2);
  const std::vector<int64_t> keys = {0, 300, 2047, 2048, kManyKeys - 1};
  oracle::Tensor mask{{kManyKeys}, std::vector<double>(kManyKeys, 1)};
  for (const int64_t key : keys) mask.data[static_cast<size_t>(key)] = 0;
  for (const DType dtype : kTypes) {
    Case masked = call;
    masked.dense_masks = {mask};
    ExpectUntouched(masked, keys, dtype);
    Case shorter = call;
    shorter.kv_lengths = {2100};
    ExpectUntouched(shorter, {2100, 2101, kManyKeys - 1}, dtype);
    Case windowed = call;
    windowed.bands = {{.left = 100, .right = 0, .bottom_right = true}};
    ExpectUntouched(windowed, {0, 2047, 4000}, dtype);
  }
}

TEST_P(FewQueriesTest, PoisonReachesTheRowsThatSeeIt) {
  Case call = CaseOf({.q_heads = 2, .q_length = 3});
  RoundTo(DType::kF32, call);
  // Query 1 alone does not see key 2100.
  oracle::Tensor mask{{3, kManyKeys}, std::vector<double>(3 * kManyKeys, 1)};
  mask.data[kManyKeys + 2100] = 0;
  call.dense_masks = {mask};
  const Outcome masked = Run(call);
  for (const double poison : kPoisons) {
    Case changed = call;
    changed.v[static_cast<size_t>(2100 * call.v_dim + 2)] = poison;
    const Outcome got = Run(changed);
    for (size_t i = 0; i < got.output.size(); ++i) {
      const size_t row = i / 7;
      const bool first_entry = row < 6;
      const bool reached = first_entry && row % 3 != 1 && i % 7 == 2;
      ASSERT_EQ(std::isfinite(got.output[i]), !reached) << i;
      if (reached) continue;
      ASSERT_EQ(got.output[i], masked.output[i]) << i;
    }
    EXPECT_EQ(got.nonfinite_v, 1);
    EXPECT_EQ(got.nonfinite_k, 0);
    EXPECT_EQ(got.nonfinite_outputs, 4);
  }
}

TEST_P(FewQueriesTest, NaNInAKeyIsCountedAndReachesItsRows) {
  Case call = CaseOf({.q_heads = 4, .kv_heads = 2});
  RoundTo(DType::kF32, call);
  call.k[static_cast<size_t>(2500 * call.qk_dim + 3)] = kNaN;
  const Outcome got = Run(call);
  // The first KV head of the first entry: two query heads.
  for (size_t i = 0; i < got.output.size(); ++i) {
    ASSERT_EQ(std::isnan(got.output[i]), i / 7 < 2) << i;
  }
  EXPECT_EQ(got.nonfinite_k, 1);
  EXPECT_EQ(got.nonfinite_v, 0);
  EXPECT_EQ(got.rows[0].top_key, -1);
  EXPECT_TRUE(std::isnan(got.rows[0].entropy));
  EXPECT_EQ(got.rows[0].visible_keys, kManyKeys);
}

TEST_P(FewQueriesTest, ValueOfWeightZeroStillCounts) {
  Case call = CaseOf({});
  RoundTo(DType::kF32, call);
  oracle::Tensor bias{{kManyKeys}, std::vector<double>(kManyKeys, 0)};
  bias.data[5] = -1e6;  // a number, not a mask: its weight underflows to 0
  call.dense_biases = {bias};
  call.v[static_cast<size_t>(5 * call.v_dim + 3)] = kInfinity;
  const Outcome got = Run(call);
  for (size_t i = 0; i < got.output.size(); ++i) {
    ASSERT_EQ(std::isnan(got.output[i]), i / 7 < 4 && i % 7 == 3) << i;
  }
  EXPECT_EQ(got.nonfinite_v, 1);
}

}  // namespace
}  // namespace attn::testing
