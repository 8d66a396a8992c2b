// Dropout, its keep mask and the head gate.
#include "engine/kernels/dropout.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/tile/philox.h"
#include "gmock/gmock.h"
#include "tests/engine/variants/spec_call.h"

namespace attn::testing {
namespace {

using ::testing::Each;

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 3;
constexpr int64_t kQueries = 70;  // more than a block of rows
constexpr int64_t kKeys = 37;
constexpr uint64_t kSeed = 0x123456789ABCDEFu;

const char* const kKernels[] = {"rowwise", "reference"};

DropoutSpec Drop(double p, bool renormalize = false) {
  return {p, kSeed, renormalize, std::nullopt};
}

SpecCall CallWith(const DropoutSpec& dropout) {
  SpecCall call(kBatch, kHeads, kQueries, kKeys);
  call.spec().dropout = dropout;
  return call;
}

// Row r of [B, H, Sq] is dropped out by the definition.
double KeptShare(uint64_t row, int64_t key) {
  const auto query = static_cast<uint32_t>(row % kQueries);
  const auto head = static_cast<uint32_t>(row / kQueries % kHeads);
  const auto batch = static_cast<uint32_t>(row / kQueries / kHeads);
  const auto words =
      Philox4x32({static_cast<uint32_t>(key / 4), query, head, batch},
                 {static_cast<uint32_t>(kSeed & 0xFFFFFFFFu),
                  static_cast<uint32_t>(kSeed >> 32)});
  return static_cast<double>(words[static_cast<size_t>(key % 4)]) * 0x1p-32;
}

// The output that the reported weights and keep mask stand for.
void ExpectOutputByFormula(const SpecCall& call, const SpecOutcome& got,
                           double p, bool renormalize) {
  for (size_t row = 0; row < kBatch * kHeads * kQueries; ++row) {
    double kept = 0;
    std::vector<double> sums(SpecCall::kDim, 0.0);
    for (int64_t j = 0; j < kKeys; ++j) {
      const size_t at = row * kKeys + static_cast<size_t>(j);
      if (got.keep[at] == 0) continue;
      const auto weight = static_cast<double>(got.weights[at]);
      kept += weight;
      for (int64_t c = 0; c < SpecCall::kDim; ++c) {
        sums[static_cast<size_t>(c)] +=
            weight * static_cast<double>(
                         call.V(static_cast<int64_t>(row) / kQueries, j, c));
      }
    }
    const double factor = renormalize ? 1 / kept : 1 / (1 - p);
    for (size_t c = 0; c < SpecCall::kDim; ++c) {
      ASSERT_NEAR(got.output[row * SpecCall::kDim + c], sums[c] * factor, 2e-5)
          << row;
    }
  }
}

TEST(DropoutTest, KeepMaskIsPhiloxOfTheIndices) {
  for (const char* kernel : kKernels) {
    const SpecOutcome got = CallWith(Drop(0.3)).Run(kernel);
    double kept = 0;
    for (size_t at = 0; at < got.keep.size(); ++at) {
      const double share =
          KeptShare(at / kKeys, static_cast<int64_t>(at % kKeys));
      ASSERT_EQ(got.keep[at], share < 0.3 ? 0 : 1) << at;
      kept += got.keep[at];
    }
    const auto count = static_cast<double>(got.keep.size());
    EXPECT_NEAR(kept / count, 0.7, 5 * std::sqrt(0.3 * 0.7 / count));
  }
}

TEST(DropoutTest, OutputIsThatOfKeptWeightsScaledUp) {
  for (const char* kernel : kKernels) {
    const SpecCall call = CallWith(Drop(0.3));
    ExpectOutputByFormula(call, call.Run(kernel), 0.3, false);
  }
}

TEST(DropoutTest, RenormalizedWeightsSumToOne) {
  for (const char* kernel : kKernels) {
    const SpecCall call = CallWith(Drop(0.3, true));
    ExpectOutputByFormula(call, call.Run(kernel), 0.3, true);
  }
}

TEST(DropoutTest, ReportedWeightsAreThoseBefore) {
  for (const char* kernel : kKernels) {
    const SpecOutcome with = CallWith(Drop(0.9)).Run(kernel);
    const SpecOutcome without =
        SpecCall(kBatch, kHeads, kQueries, kKeys).Run(kernel);
    EXPECT_EQ(with.weights, without.weights);
  }
}

TEST(DropoutTest, ProbabilityOfZeroChangesNoBit) {
  for (const char* kernel : kKernels) {
    const SpecOutcome with = CallWith(Drop(0)).Run(kernel);
    EXPECT_THAT(with.keep, Each(1));
    EXPECT_EQ(with.output,
              SpecCall(kBatch, kHeads, kQueries, kKeys).Run(kernel).output);
  }
}

TEST(DropoutTest, ProbabilityNearOneDropsAll) {
  for (const char* kernel : kKernels) {
    const DropoutSpec dropout = Drop(std::nextafter(1.0, 0.0), true);
    const SpecOutcome got = CallWith(dropout).Run(kernel);
    EXPECT_THAT(got.keep, Each(0));
    EXPECT_THAT(got.output, Each(0));
  }
}

TEST(DropoutTest, MoreWorkersAndOtherBlocksGiveTheSameMask) {
  const SpecCall call = CallWith(Drop(0.5));
  const SpecOutcome one = call.Run("rowwise", 1);
  const SpecOutcome three = call.Run("rowwise", 3);
  EXPECT_EQ(one.keep, three.keep);
  EXPECT_EQ(one.output, three.output);
  EXPECT_EQ(one.keep, call.Run("reference", 2).keep);
}

TEST(DropoutTest, MasksLeaveTheMaskOfAllKeysAlone) {
  SpecCall call = CallWith(Drop(0.5));
  const std::vector<uint8_t> unmasked = call.Run("rowwise").keep;
  call.spec().masks = {WindowMask{3, 0, Alignment::kTopLeft}};
  for (const char* kernel : kKernels) {
    const SpecOutcome got = call.Run(kernel);
    EXPECT_EQ(got.keep, unmasked);
    // Renormalising is off and some rows keep nothing.
    ExpectOutputByFormula(call, got, 0.5, false);
  }
}

TEST(DropoutTest, GivenMaskIsTaken) {
  std::vector<uint8_t> keep;
  for (int64_t i = 0; i < kQueries * kKeys; ++i) {
    keep.push_back(i * 7 % 5 < 3 ? 1 : 0);
  }
  for (const char* kernel : kKernels) {
    SpecCall call(kBatch, kHeads, kQueries, kKeys);
    call.spec().dropout = DropoutSpec{
        .p = 0.4,
        .keep = call.AddInput<uint8_t>(DType::kBool, {kQueries, kKeys}, keep)};
    const SpecOutcome got = call.Run(kernel);
    for (size_t at = 0; at < got.keep.size(); ++at) {
      ASSERT_EQ(got.keep[at], keep[at % keep.size()]);
    }
    ExpectOutputByFormula(call, got, 0.4, false);
  }
}

TEST(DropoutTest, WrongFieldIsNamed) {
  for (const double p : {1.0, -0.1, 2.0, std::nan("")}) {
    EXPECT_EQ(FieldOf(CallWith(Drop(p)).Check()), "spec.dropout.p") << p;
  }
  SpecCall call = CallWith({0.5, 0, false, 0});
  EXPECT_EQ(FieldOf(call.Check()), "spec.dropout.keep.input");
  call.AddInput<float>(DType::kF32, {kQueries, kKeys},
                       std::vector<float>(kQueries * kKeys));
  EXPECT_EQ(FieldOf(call.Check()), "spec.dropout.keep.input");
  call.spec().dropout.reset();
  EXPECT_EQ(FieldOf(call.Check(true)), "outputs");
  EXPECT_TRUE(call.Check().ok());
}

TEST(HeadGateTest, OutputRowsAreMultiplied) {
  std::vector<float> by_row;
  for (int i = 0; i < kBatch * kHeads * kQueries; ++i) {
    by_row.push_back(static_cast<float>(i % 11) / 4 - 1);
  }
  const std::vector<float> by_head = {0.5F, -2, 0};
  const std::vector<float> plain =
      SpecCall(kBatch, kHeads, kQueries, kKeys).Run("rowwise").output;
  for (const bool rows : {false, true}) {
    for (const char* kernel : kKernels) {
      SpecCall call(kBatch, kHeads, kQueries, kKeys);
      call.spec().head_gate =
          rows ? call.AddInput<float>(DType::kF32, {kBatch, kHeads, kQueries},
                                      by_row)
               : call.AddInput<float>(DType::kF32, {kHeads}, by_head);
      const SpecOutcome got = call.Run(kernel);
      for (size_t i = 0; i < got.output.size(); ++i) {
        const size_t row = i / SpecCall::kDim;
        const float gate =
            rows ? by_row[row] : by_head[row / kQueries % kHeads];
        ASSERT_NEAR(got.output[i], plain[i] * gate, 1e-5) << i;
      }
    }
  }
}

TEST(HeadGateTest, RowThatSeesNothingStaysZero) {
  for (const char* kernel : kKernels) {
    SpecCall call(kBatch, kHeads, kQueries, kKeys);
    call.spec().head_gate = call.AddInput<float>(
        DType::kF32, {kHeads},
        std::vector<float>(3, std::numeric_limits<float>::quiet_NaN()));
    call.args().kv_lengths = {0, 0};
    EXPECT_THAT(call.Run(kernel).output, Each(0));
  }
}

TEST(HeadGateTest, WrongShapeIsNamed) {
  SpecCall call(kBatch, kHeads, kQueries, kKeys);
  call.spec().head_gate =
      call.AddInput<float>(DType::kF32, {2}, std::vector<float>(2));
  EXPECT_EQ(FieldOf(call.Check()), "spec.head_gate.input");
}

}  // namespace
}  // namespace attn::testing
