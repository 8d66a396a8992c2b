#include "client/library/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();
constexpr int kRows = 3;
constexpr int kWidth = 4;

// Attention of some rows over keys [begin, end), by the formula.
struct Whole {
  std::vector<std::vector<double>> logits;  // [row][key]
  std::vector<std::vector<double>> values;  // [key][d]

  explicit Whole(size_t keys, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, 3);
    logits.assign(kRows, std::vector<double>(keys));
    values.assign(keys, std::vector<double>(kWidth));
    for (auto& row : logits) {
      for (double& x : row) x = normal(random);
    }
    for (auto& value : values) {
      for (double& x : value) x = normal(random);
    }
  }

  void Part(size_t begin, size_t end, int64_t at, HostTensor& outputs,
            HostTensor& lses) const {
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      std::vector<double> out(kWidth, 0);
      for (size_t j = begin; j < end; ++j) {
        const double e = std::exp(logits[r][j]);
        sum += e;
        for (size_t d = 0; d < kWidth; ++d) out[d] += e * values[j][d];
      }
      const int64_t row = at * kRows + static_cast<int64_t>(r);
      lses.Set(row, begin == end ? kNoKey : std::log(sum));
      for (size_t d = 0; d < kWidth; ++d) {
        outputs.Set(row * kWidth + static_cast<int64_t>(d),
                    begin == end ? 0 : out[d] / sum);
      }
    }
  }
};

// Any split of the keys, empty parts among them, merges into the whole.
TEST(MergeTest, OneToSixteenPartsGiveTheWhole) {
  constexpr size_t kKeys = 37;
  for (int64_t parts = 1; parts <= 16; ++parts) {
    const Whole whole(kKeys, static_cast<unsigned>(parts));
    HostTensor want(DType::kF64, {1, kRows, kWidth});
    HostTensor want_lse(DType::kF64, {1, kRows});
    whole.Part(0, kKeys, 0, want, want_lse);
    std::mt19937 random(static_cast<unsigned>(parts));
    std::vector<size_t> cuts = {0, kKeys};
    for (int64_t p = 1; p < parts; ++p) cuts.push_back(random() % (kKeys + 1));
    std::sort(cuts.begin(), cuts.end());
    HostTensor outputs(DType::kF64, {parts, kRows, kWidth});
    HostTensor lses(DType::kF64, {parts, kRows});
    for (int64_t p = 0; p < parts; ++p) {
      const auto at = static_cast<size_t>(p);
      whole.Part(cuts[at], cuts[at + 1], p, outputs, lses);
    }
    const auto merged = MergePartials(outputs, lses);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->output.shape(), (Shape{kRows, kWidth}));
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      EXPECT_NEAR(merged->output.At(i), want.At(i), 1e-12) << parts;
    }
    for (int64_t r = 0; r < kRows; ++r) {
      EXPECT_NEAR(merged->lse.At(r), want_lse.At(r), 1e-12) << parts;
    }
  }
}

TEST(MergeTest, AnEmptyPartIsTheIdentityWhateverItHolds) {
  const auto outputs = HostTensor::From<double>(
      {2, 1, 2},
      {3, -4, std::nan(""), std::numeric_limits<double>::infinity()});
  const auto lses = HostTensor::From<double>({2, 1}, {0.7, kNoKey});
  const auto merged = MergePartials(*outputs, *lses);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->output.At(0), 3);
  EXPECT_EQ(merged->output.At(1), -4);
  EXPECT_EQ(merged->lse.At(0), 0.7);
}

TEST(MergeTest, EmptyPartsAloneGiveAnEmptyOneNotNan) {
  const auto merged =
      MergePartials(HostTensor(DType::kF32, {2, 1, 2}),
                    *HostTensor::From<float>(
                        {2, 1}, {-std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity()}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->output.At(0), 0);
  EXPECT_EQ(merged->lse.At(0), kNoKey);
}

TEST(MergeTest, HugeLogarithmsDoNotOverflow) {
  const auto merged =
      MergePartials(*HostTensor::From<double>({2, 1, 1}, {2, 4}),
                    *HostTensor::From<double>({2, 1}, {1e6, 1e6}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_DOUBLE_EQ(merged->output.At(0), 3);
  EXPECT_DOUBLE_EQ(merged->lse.At(0), 1e6 + std::log(2.0));
}

// By the formula, over keys and sinks together.
TEST(MergeTest, SinksJoinOnceAfterMerging) {
  const Whole whole(9, 3);
  HostTensor outputs(DType::kF64, {2, 1, kRows, 1, kWidth});
  HostTensor lses(DType::kF64, {2, 1, kRows, 1});
  whole.Part(0, 4, 0, outputs, lses);
  whole.Part(4, 9, 1, outputs, lses);
  auto merged = MergePartials(outputs, lses);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const HostTensor keys = HostTensor::Copy(merged->lse.view());
  const auto sinks =
      HostTensor::From<double>({kRows, 2}, {0.5, 1, -2, 3, kNoKey, kNoKey});
  const auto with_sink = JoinSinks(*sinks, *merged);
  ASSERT_TRUE(with_sink.ok()) << with_sink.status();
  HostTensor all(DType::kF64, {1, kRows, kWidth});
  HostTensor all_lse(DType::kF64, {1, kRows});
  whole.Part(0, 9, 0, all, all_lse);
  for (int64_t r = 0; r < kRows; ++r) {
    const double own = std::exp(all_lse.At(r));
    const double sum =
        own + std::exp(sinks->At(2 * r)) + std::exp(sinks->At(2 * r + 1));
    EXPECT_NEAR(with_sink->At(r), std::log(sum), 1e-12);
    EXPECT_EQ(merged->lse.At(r), keys.At(r));
    for (int64_t d = r * kWidth; d < (r + 1) * kWidth; ++d) {
      EXPECT_NEAR(merged->output.At(d), all.At(d) * own / sum, 1e-12);
    }
  }
  EXPECT_FALSE(JoinSinks(HostTensor(DType::kF64, {kRows + 1}), *merged).ok());
}

TEST(MergeTest, NamesShapesThatDoNotFit) {
  const HostTensor outputs(DType::kF32, {2, 3, 4});
  EXPECT_FALSE(MergePartials(outputs, HostTensor(DType::kF32, {2, 4})).ok());
  EXPECT_FALSE(MergePartials(outputs, HostTensor(DType::kF32, {2})).ok());
  EXPECT_FALSE(MergePartials(outputs, HostTensor(DType::kF64, {2, 3})).ok());
  EXPECT_FALSE(MergePartials(HostTensor(DType::kF32, {0, 3, 4}),
                             HostTensor(DType::kF32, {0, 3}))
                   .ok());
}

}  // namespace
}  // namespace attn
