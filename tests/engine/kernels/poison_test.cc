// NaN and infinities: where no row may look they reach nothing, and where a
// row looks they reach that row alone.
#include <cmath>
#include <limits>

#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPoisons[] = {kNaN, kInfinity, -kInfinity};
constexpr int64_t kKeys = 600;  // more than one chunk of the rowwise kernel

Case PlainCase() {
  Random random(21);
  Case call;
  call.q_heads = 2;
  call.kv_heads = 1;
  call.q_length = 66;
  call.kv_length = kKeys;
  call.qk_dim = 9;
  call.v_dim = 7;
  FillTensors(random, call);
  RoundTo(DType::kF32, call);
  return call;
}

// Poison in the first, a middle and the last of some keys, in K and in V.
Case Poisoned(const Case& call, const std::vector<int64_t>& keys,
              double poison) {
  Case changed = call;
  for (const int64_t key : keys) {
    changed.k[static_cast<size_t>(key * call.qk_dim + 4)] = poison;
    changed.v[static_cast<size_t>(key * call.v_dim)] = poison;
    changed.v[static_cast<size_t>(key * call.v_dim + 6)] = poison;
  }
  return changed;
}

class PoisonTest : public EveryKernel {
 protected:
  // What is not a raw logit of an excluded key.
  static void ExpectSameResults(Outcome clean, Outcome got) {
    clean.logits.clear();
    got.logits.clear();
    EXPECT_TRUE(got.SameBits(clean));
  }

  void ExpectUntouched(const Case& call, const std::vector<int64_t>& keys,
                       int64_t counted) const {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Case rounded = call;
      RoundTo(dtype, rounded);
      const CallOptions options{.dtype = dtype, .output_dtype = dtype};
      const Outcome clean = Run(rounded, options);
      for (const double poison : kPoisons) {
        const Outcome got = Run(Poisoned(rounded, keys, poison), options);
        ExpectSameResults(clean, got);
        EXPECT_EQ(got.nonfinite_k, counted);
        EXPECT_EQ(got.nonfinite_v, 2 * counted);
        EXPECT_EQ(got.nonfinite_outputs, 0);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, PoisonTest, AllKernels(), KernelName);

TEST_P(PoisonTest, BeyondTheLengthIsNeverRead) {
  Case call = PlainCase();
  for (const int64_t length : {int64_t{0}, int64_t{100}, int64_t{512}}) {
    call.kv_lengths = {length};
    ExpectUntouched(call, {length, 550, kKeys - 1}, 0);
  }
}

TEST_P(PoisonTest, BehindADenseMaskReachesNothing) {
  Case call = PlainCase();
  oracle::Tensor mask{{kKeys}, std::vector<double>(kKeys, 1)};
  for (const size_t key : {0U, 300U, 511U, 512U, 599U}) mask.data[key] = 0;
  call.dense_masks = {mask};
  ExpectUntouched(call, {0, 300, 511, 512, 599}, 5);
}

TEST_P(PoisonTest, BehindABiasOfMinusInfinityReachesNothing) {
  Case call = PlainCase();
  oracle::Tensor bias{{kKeys}, std::vector<double>(kKeys, 0.5)};
  for (const size_t key : {1U, 63U, 64U}) bias.data[key] = -kInfinity;
  call.dense_biases = {bias};
  ExpectUntouched(call, {1, 63, 64}, 3);
}

TEST_P(PoisonTest, OutsideOfAWindowReachesNothing) {
  Case call = PlainCase();
  // Queries 0 to 65 see keys 0 to 75.
  call.bands = {{.left = 20, .right = 10, .bottom_right = false}};
  ExpectUntouched(call, {76, 300, kKeys - 1}, 3);
}

TEST_P(PoisonTest, OnlyRowsBeforeACausalKeyStayClean) {
  Case call = PlainCase();
  call.bands = {{.left = {}, .right = 0, .bottom_right = false}};
  const Outcome clean = Run(call);
  for (const double poison : kPoisons) {
    Case changed = call;
    changed.v[static_cast<size_t>(30 * call.v_dim + 2)] = poison;
    const Outcome got = Run(changed);
    for (size_t i = 0; i < got.output.size(); ++i) {
      const size_t row = i / 7 % 66;
      const bool reached = row >= 30 && i % 7 == 2;
      ASSERT_EQ(std::isfinite(got.output[i]), !reached) << i;
      if (reached) continue;
      ASSERT_EQ(got.output[i], clean.output[i]) << i;
    }
    EXPECT_EQ(got.nonfinite_outputs, 2 * 36);
  }
}

TEST_P(PoisonTest, VisibleKeyReachesTheRowsThatSeeIt) {
  Case call = PlainCase();
  oracle::Tensor mask{{66, kKeys}, std::vector<double>(66 * kKeys, 1)};
  for (size_t row = 10; row < 66; ++row) mask.data[row * kKeys + 200] = 0;
  call.dense_masks = {mask};
  call.k[static_cast<size_t>(200 * call.qk_dim)] = kNaN;
  const Outcome got = Run(call);
  for (size_t i = 0; i < got.output.size(); ++i) {
    ASSERT_EQ(std::isnan(got.output[i]), i / 7 % 66 < 10) << i;
  }
}

TEST_P(PoisonTest, NaNInAQueryStaysInItsRow) {
  Case call = PlainCase();
  call.q[static_cast<size_t>(40 * call.qk_dim + 1)] = kNaN;
  for (const double scale : {0.0, 0.5}) {
    call.scale = scale;
    const Outcome got = Run(call);
    EXPECT_EQ(got.nonfinite_q, 1);
    for (size_t i = 0; i < got.output.size(); ++i) {
      ASSERT_EQ(std::isnan(got.output[i]), i / 7 == 40) << i;
    }
  }
}

TEST_P(PoisonTest, VisibleValueOfWeightZeroStillCounts) {
  Case call = PlainCase();
  oracle::Tensor bias{{kKeys}, std::vector<double>(kKeys, 0)};
  bias.data[5] = -1e6;  // a number, not a mask: its weight underflows to 0
  call.dense_biases = {bias};
  call.v[static_cast<size_t>(5 * call.v_dim + 3)] = kInfinity;
  const Outcome got = Run(call);
  for (size_t i = 0; i < got.output.size(); ++i) {
    ASSERT_EQ(std::isnan(got.output[i]), i % 7 == 3) << i;
  }
}

TEST_P(PoisonTest, RowsBeyondTheQueryLengthAreNeitherReadNorCounted) {
  Case call = PlainCase();
  call.q_lengths = {50};
  const Outcome clean = Run(call);
  Case changed = call;
  for (size_t i = static_cast<size_t>(50 * call.qk_dim);
       i < static_cast<size_t>(66 * call.qk_dim); ++i) {
    changed.q[i] = kNaN;
  }
  const Outcome got = Run(changed);
  EXPECT_TRUE(got.SameBits(clean));
  EXPECT_EQ(got.nonfinite_q, 0);
}

}  // namespace
}  // namespace attn::testing
