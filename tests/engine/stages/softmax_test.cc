#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/normalizers/normalizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

// Definitions, summed in long double over the visible keys.
struct Expected {
  std::vector<double> weights;
  double lse = -kInf;
  double entropy = 0;
};

template <typename T>
Expected Define(const std::vector<T>& logits) {
  Expected expected;
  long double pivot = -std::numeric_limits<long double>::infinity();
  for (const T z : logits) pivot = std::max(pivot, static_cast<long double>(z));
  long double sum = 0;
  for (const T z : logits) sum += std::exp(static_cast<long double>(z) - pivot);
  for (const T z : logits) {
    const long double p = std::exp(static_cast<long double>(z) - pivot) / sum;
    expected.weights.push_back(static_cast<double>(p));
    if (p > 0) expected.entropy -= static_cast<double>(p * std::log(p));
  }
  expected.lse = static_cast<double>(pivot + std::log(sum));
  return expected;
}

// Normalises one row that starts at absolute key `first`.
template <typename T>
RowStatistics Normalize(std::vector<T>& row, int64_t first = 0) {
  const auto keys = static_cast<int64_t>(row.size());
  StageCall call(1, 1, 1, first + keys);
  RowStatistics statistics;
  const Tile<T> tile = {{0, 0, 0, 1, first, keys}, row.data(), keys};
  NormalizerTable()[0]
      .make(SoftmaxNormalizer{}, call.problem())
      ->Normalize(call.view(), tile, &statistics);
  return statistics;
}

template <typename T>
class Softmax : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Softmax, Precisions);

template <typename T>
void ExpectDefinition(const std::vector<T>& logits) {
  // A float engine's tolerance: relative 2e-5 and absolute 3e-6.
  const bool narrow = sizeof(T) == sizeof(float);
  const double relative = narrow ? 2e-5 : 1e-12;
  const double absolute = narrow ? 3e-6 : 1e-13;
  const auto near = [&](double got, double want) {
    ASSERT_NEAR(got, want, absolute + relative * std::abs(want));
  };
  const Expected expected = Define(logits);
  std::vector<T> row = logits;
  const RowStatistics statistics = Normalize(row);
  for (size_t i = 0; i < row.size(); ++i) near(row[i], expected.weights[i]);
  near(statistics.lse, expected.lse);
  near(statistics.entropy, expected.entropy);
  near(statistics.peak_weight,
       *std::max_element(expected.weights.begin(), expected.weights.end()));
  const auto top = std::max_element(logits.begin(), logits.end());
  EXPECT_EQ(statistics.top_key, top - logits.begin());
  EXPECT_EQ(statistics.logit_max, static_cast<double>(*top));
}

TYPED_TEST(Softmax, MatchesItsDefinitionAtEveryLengthAndSpread) {
  std::mt19937 random(41);
  for (const int keys : {1, 2, 3, 15, 16, 17, 33, 500, 513, 4099}) {
    for (const double spread : {1e-3, 1.0, 10.0, 300.0}) {
      std::normal_distribution<double> draw(5, spread);
      std::vector<TypeParam> logits(static_cast<size_t>(keys));
      for (TypeParam& z : logits) z = static_cast<TypeParam>(draw(random));
      ExpectDefinition(logits);
    }
  }
}

TYPED_TEST(Softmax, CountsAndBoundsOnlyWhatIsVisible) {
  constexpr auto hidden = -std::numeric_limits<TypeParam>::infinity();
  std::vector<TypeParam> row = {hidden, 1, 4, hidden, -2, 4};
  const RowStatistics statistics = Normalize(row, 100);
  EXPECT_EQ(statistics.visible_keys, 4);
  EXPECT_EQ(statistics.logit_min, -2);
  EXPECT_EQ(statistics.logit_max, 4);
  // Keys 102 and 105 are equal: the lower wins.
  EXPECT_EQ(statistics.top_key, 102);
  EXPECT_EQ(row[0], 0);
  EXPECT_EQ(row[3], 0);
  EXPECT_EQ(row[2], row[5]);
}

TYPED_TEST(Softmax, OneVisibleKeyHasEntropyExactlyZero) {
  constexpr auto hidden = -std::numeric_limits<TypeParam>::infinity();
  for (const double logit : {0.0, -1e4, 35570048.0}) {
    std::vector<TypeParam> row(19, hidden);
    row[7] = static_cast<TypeParam>(logit);
    const RowStatistics statistics = Normalize(row);
    EXPECT_EQ(statistics.entropy, 0);
    EXPECT_EQ(statistics.peak_weight, 1);
    EXPECT_EQ(statistics.lse, logit);
    EXPECT_EQ(statistics.top_key, 7);
    EXPECT_EQ(row[7], 1);
  }
}

TYPED_TEST(Softmax, AKeyAtMinusABillionCostsTheEntropyNoDigits) {
  std::vector<TypeParam> row(9, TypeParam{0});
  row[4] = TypeParam{-1e9};
  const RowStatistics statistics = Normalize(row);
  EXPECT_NEAR(statistics.entropy, std::log(8.0), 1e-12);
  EXPECT_EQ(statistics.visible_keys, 9);
  EXPECT_EQ(row[4], 0);

  std::vector<TypeParam> peaked = {0, TypeParam{-1e9}, TypeParam{-1e9}};
  EXPECT_EQ(Normalize(peaked).entropy, 0);
}

TYPED_TEST(Softmax, ARowAtTheLowestNumberIsUniform) {
  std::vector<TypeParam> row(5, std::numeric_limits<TypeParam>::lowest());
  const RowStatistics statistics = Normalize(row);
  EXPECT_THAT(row, testing::Each(static_cast<TypeParam>(0.2)));
  EXPECT_NEAR(statistics.entropy, std::log(5.0), 1e-12);
}

TYPED_TEST(Softmax, ARowWithoutVisibleKeysIsZero) {
  for (const size_t keys : {0U, 1U, 17U}) {
    std::vector<TypeParam> row(keys,
                               -std::numeric_limits<TypeParam>::infinity());
    const RowStatistics statistics = Normalize(row, 3);
    EXPECT_THAT(row, testing::Each(TypeParam{0}));
    EXPECT_EQ(statistics.lse, -kInf);
    EXPECT_EQ(statistics.entropy, 0);
    EXPECT_EQ(statistics.peak_weight, 0);
    EXPECT_EQ(statistics.top_key, -1);
    EXPECT_EQ(statistics.visible_keys, 0);
    EXPECT_EQ(statistics.logit_min, 0);
    EXPECT_EQ(statistics.logit_max, 0);
  }
}

TYPED_TEST(Softmax, NaNReachesItsOwnRowOnly) {
  using T = TypeParam;
  StageCall call(1, 1, 3, 4);
  OwnedTile<T> tile({0, 0, 0, 3, 0, 4}, T{1});
  tile.At(1, 2) = std::numeric_limits<T>::quiet_NaN();
  tile.At(1, 0) = -std::numeric_limits<T>::infinity();
  RowStatistics statistics[3];
  NormalizerTable()[0]
      .make(SoftmaxNormalizer{}, call.problem())
      ->Normalize(call.view(), tile.tile(), statistics);
  for (int64_t j = 0; j < 4; ++j) {
    EXPECT_EQ(tile.At(0, j), T{0.25});
    EXPECT_EQ(std::isnan(tile.At(1, j)), j != 0);
    EXPECT_EQ(tile.At(2, j), T{0.25});
  }
  EXPECT_EQ(tile.At(1, 0), 0);
  EXPECT_EQ(statistics[1].visible_keys, 3);
  EXPECT_EQ(statistics[1].top_key, -1);
  EXPECT_TRUE(std::isnan(statistics[1].entropy));
  EXPECT_TRUE(std::isnan(statistics[1].lse));
  EXPECT_EQ(statistics[2].visible_keys, 4);
}

TYPED_TEST(Softmax, PlusInfinityMakesItsRowNaN) {
  constexpr auto infinite = std::numeric_limits<TypeParam>::infinity();
  std::vector<TypeParam> row = {1, infinite, -infinite, 2};
  const RowStatistics statistics = Normalize(row);
  EXPECT_TRUE(std::isnan(row[0]) && std::isnan(row[1]) && std::isnan(row[3]));
  EXPECT_EQ(row[2], 0);
  EXPECT_EQ(statistics.lse, kInf);
  EXPECT_TRUE(std::isnan(statistics.entropy));
}

TYPED_TEST(Softmax, BitsDoNotDependOnCompanyOrPlace) {
  using T = TypeParam;
  std::mt19937 random(9);
  std::normal_distribution<T> draw(0, 4);
  std::vector<T> logits(77);
  for (T& z : logits) z = draw(random);
  std::vector<T> alone = logits;
  const RowStatistics want = Normalize(alone);
  StageCall call(1, 1, 5, 77);
  for (int64_t place = 0; place < 5; ++place) {
    OwnedTile<T> tile({0, 0, 0, 5, 0, 77}, T{50});
    std::copy(logits.begin(), logits.end(), &tile.At(place, 0));
    RowStatistics statistics[5];
    NormalizerTable()[0]
        .make(SoftmaxNormalizer{}, call.problem())
        ->Normalize(call.view(), tile.tile(), statistics);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &tile.At(place, 0)));
    EXPECT_EQ(statistics[place].lse, want.lse);
    EXPECT_EQ(statistics[place].entropy, want.entropy);
  }
}

}  // namespace
}  // namespace attn
