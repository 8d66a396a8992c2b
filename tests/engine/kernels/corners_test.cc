// Empty shapes, empty rows and extreme numbers.
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Close;
using oracle::Random;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Case CaseOf(int64_t q_length, int64_t kv_length, int64_t qk_dim,
            int64_t v_dim) {
  Random random(31);
  Case call;
  call.batch = 2;
  call.q_heads = 4;
  call.kv_heads = 2;
  call.q_length = q_length;
  call.kv_length = kv_length;
  call.qk_dim = qk_dim;
  call.v_dim = v_dim;
  FillTensors(random, call);
  RoundTo(DType::kF32, call);
  return call;
}

class CornersTest : public EveryKernel {
 protected:
  static void ExpectEmptyRow(const Outcome& got, size_t row) {
    EXPECT_EQ(got.lse[row], -kInfinity);
    EXPECT_EQ(got.rows[row].lse, -kInfinity);
    EXPECT_EQ(got.rows[row].entropy, 0);
    EXPECT_EQ(got.rows[row].peak_weight, 0);
    EXPECT_EQ(got.rows[row].top_key, -1);
    EXPECT_EQ(got.rows[row].visible_keys, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, CornersTest, AllKernels(), KernelName);

TEST_P(CornersTest, FullyMaskedRowsAreZeroAndTheOthersAreNot) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Case call = CaseOf(5, 6, 8, 3);
    oracle::Tensor mask{{5, 1}, {1, 0, 1, 0, 1}};
    call.dense_masks = {mask};
    RoundTo(dtype, call);
    const Outcome got = Run(call, {.dtype = dtype, .output_dtype = dtype});
    for (size_t row = 0; row < got.rows.size(); ++row) {
      if (mask.data[row % 5] != 0) {
        EXPECT_EQ(got.rows[row].visible_keys, 6);
        continue;
      }
      ExpectEmptyRow(got, row);
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(got.output[row * 3 + c], 0);
      for (size_t j = 0; j < 6 && HoldsRows(); ++j) {
        EXPECT_EQ(got.weights[row * 6 + j], 0);
        EXPECT_EQ(got.masked_logits[row * 6 + j], -kInfinity);
      }
    }
  }
}

TEST_P(CornersTest, MoreQueriesThanKeysLeaveLeadingRowsEmpty) {
  Case call = CaseOf(7, 4, 8, 8);
  call.bands = {{.left = {}, .right = 0, .bottom_right = true}};
  const Outcome got = Run(call);
  for (size_t row = 0; row < got.rows.size(); ++row) {
    const auto query = static_cast<int64_t>(row % 7);
    EXPECT_EQ(got.rows[row].visible_keys, std::max<int64_t>(query - 2, 0));
    if (query < 3) ExpectEmptyRow(got, row);
  }
}

TEST_P(CornersTest, NoKeysGiveZero) {
  const Outcome got = Run(CaseOf(3, 0, 8, 5));
  EXPECT_THAT(got.output, SizeIs(2 * 4 * 3 * 5));
  EXPECT_THAT(got.output, Each(0));
  EXPECT_THAT(got.weights, IsEmpty());
  for (size_t row = 0; row < got.rows.size(); ++row) ExpectEmptyRow(got, row);
}

TEST_P(CornersTest, NoQueriesGiveAnEmptyOutput) {
  const Outcome got = Run(CaseOf(0, 5, 8, 8));
  EXPECT_THAT(got.output, IsEmpty());
  EXPECT_THAT(got.rows, IsEmpty());
}

TEST_P(CornersTest, NoBatchGivesAnEmptyOutput) {
  Case call = CaseOf(4, 5, 8, 8);
  call.batch = 0;
  call.q.clear();
  call.k.clear();
  call.v.clear();
  EXPECT_THAT(Run(call).output, IsEmpty());
}

TEST_P(CornersTest, NoQueryHeadsGiveAnEmptyOutputThoughThereAreKeys) {
  Case call = CaseOf(4, 5, 8, 8);
  call.q_heads = 0;
  call.q.clear();
  EXPECT_THAT(Run(call).output, IsEmpty());
  EXPECT_THAT(Run(call).rows, IsEmpty());
  call.kv_heads = 0;
  call.k.clear();
  call.v.clear();
  EXPECT_THAT(Run(call).output, IsEmpty());
}

TEST_P(CornersTest, NoFeaturesGiveTheMeanOfTheValues) {
  const Case call = CaseOf(3, 6, 0, 2);
  const Outcome got = Run(call);
  for (size_t row = 0; row < got.rows.size(); ++row) {
    const size_t kv_head = row / 3 / 2;
    for (size_t c = 0; c < 2; ++c) {
      double mean = 0;
      for (size_t j = 0; j < 6; ++j) {
        mean += call.v[(kv_head * 6 + j) * 2 + c] / 6;
      }
      EXPECT_NEAR(got.output[row * 2 + c], mean, 1e-6);
    }
    EXPECT_NEAR(got.lse[row], std::log(6), 1e-6);
  }
}

TEST_P(CornersTest, NoValueFeaturesStillGiveStatistics) {
  const Outcome got = Run(CaseOf(3, 6, 8, 0));
  EXPECT_THAT(got.output, IsEmpty());
  for (const RowStatistics& row : got.rows) EXPECT_EQ(row.visible_keys, 6);
}

TEST_P(CornersTest, LengthsOfZeroGiveZeros) {
  Case call = CaseOf(3, 6, 8, 4);
  call.q_lengths = {0, 3};
  call.kv_lengths = {6, 0};
  const Outcome got = Run(call);
  EXPECT_THAT(got.output, Each(0));
  EXPECT_THAT(got.weights, Each(0));
  EXPECT_THAT(got.logits, Each(0));
  EXPECT_THAT(got.masked_logits, Each(-kInfinity));
}

TEST_P(CornersTest, RowOfLowestFiniteBiasIsUniform) {
  Case call = CaseOf(2, 8, 4, 4);
  const double lowest =
      static_cast<double>(std::numeric_limits<float>::lowest());
  call.dense_biases = {{{8}, std::vector<double>(8, lowest)}};
  for (const double weight : Run(call).weights) {
    EXPECT_NEAR(weight, 0.125, 1e-7);
  }
}

TEST_P(CornersTest, KeyFarBelowCostsTheEntropyNoDigits) {
  Case call = CaseOf(2, 9, 4, 4);
  call.scale = 0;
  oracle::Tensor bias{{9}, std::vector<double>(9, 0)};
  bias.data[3] = -1e9;
  call.dense_biases = {bias};
  for (const RowStatistics& row : Run(call).rows) {
    EXPECT_EQ(row.visible_keys, 9);
    EXPECT_NEAR(row.entropy, std::log(8), 1e-6);
  }
}

TEST_P(CornersTest, ScaleOfZeroIsLegalAndUniform) {
  Case call = CaseOf(3, 5, 4, 4);
  call.scale = 0;
  const Outcome got = Run(call);
  EXPECT_THAT(got.logits, Each(0));
  for (const double weight : got.weights) EXPECT_NEAR(weight, 0.2, 1e-7);
}

TEST_P(CornersTest, ValuesTooLargeForBinary16AreCountedInTheOutput) {
  Case call = CaseOf(1, 1, 4, 2);
  for (double& value : call.v) value = 1e6;
  const Outcome got = Run(call, {.output_dtype = DType::kF16});
  EXPECT_THAT(got.output, Each(kInfinity));
  EXPECT_EQ(got.nonfinite_outputs, 2 * 4 * 2);
  EXPECT_EQ(got.nonfinite_v, 0);
}

}  // namespace
}  // namespace attn::testing
