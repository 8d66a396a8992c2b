#include "tests/testing/oracle.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "tests/testing/compare.h"

namespace attn::oracle {
namespace {

using ::testing::ElementsAre;

// A published attention matrix; each row is the softmax of its own logarithm.
const std::vector<double> kPublished = {
    0.1234, 0.2426, 0.2145, 0.0651, 0.3545,  //
    0.2248, 0.1815, 0.1580, 0.2645, 0.1712,  //
    0.2517, 0.1531, 0.1539, 0.2708, 0.1704,  //
    0.1666, 0.2220, 0.1869, 0.1256, 0.2990,  //
    0.1575, 0.2351, 0.2459, 0.2124, 0.1491};

// One head whose logits are those given: q = 1, k = 0, logits by a bias.
Case WithLogits(int64_t rows, int64_t keys, std::vector<double> logits) {
  Case call;
  call.q_length = rows;
  call.kv_length = keys;
  call.q.assign(static_cast<size_t>(rows), 1);
  call.k.assign(static_cast<size_t>(keys), 0);
  for (int64_t j = 0; j < keys; ++j) {
    call.v.push_back(static_cast<double>(j));
  }
  call.dense_biases.push_back({{rows, keys}, std::move(logits)});
  return call;
}

TEST(OracleTest, SoftmaxOfLogarithmsIsThePublishedMatrix) {
  std::vector<double> logits;
  for (const double weight : kPublished) logits.push_back(std::log(weight));
  const Result result = Attend(WithLogits(5, 5, logits));
  // The published rows sum to 1 within their four digits.
  EXPECT_TRUE(Close(result.weights, kPublished, {.absolute = 5e-5}));
  double entropy = 0;
  for (int j = 0; j < 5; ++j)
    entropy -= kPublished[j] * std::log(kPublished[j]);
  EXPECT_NEAR(result.entropy[0], entropy, 1e-3);
  EXPECT_THAT(result.top_key, ElementsAre(4, 3, 3, 4, 2));
}

TEST(OracleTest, TwoKeysShareAsTheirOddsSay) {
  const Result result = Attend(WithLogits(1, 2, {0, std::log(3)}));
  EXPECT_TRUE(Close(result.weights, {0.25, 0.75}, {1e-15}));
  EXPECT_NEAR(result.output[0], 0.75, 1e-15);
  EXPECT_NEAR(result.lse[0], std::log(4), 1e-15);
}

TEST(OracleTest, CausalDiagonalsDifferByTheLengths) {
  Case call = WithLogits(2, 4, std::vector<double>(8, 0));
  call.bands = {{.left = {}, .right = 0, .bottom_right = false}};
  EXPECT_THAT(Attend(call).visible_keys, ElementsAre(1, 2));
  call.bands[0].bottom_right = true;
  EXPECT_THAT(Attend(call).visible_keys, ElementsAre(3, 4));
  call.kv_lengths = {3};
  EXPECT_THAT(Attend(call).visible_keys, ElementsAre(2, 3));
}

TEST(OracleTest, RowWithoutKeysIsZero) {
  constexpr double kExcluded = -std::numeric_limits<double>::infinity();
  const Result result = Attend(WithLogits(1, 2, {kExcluded, kExcluded}));
  EXPECT_THAT(result.output, ElementsAre(0));
  EXPECT_THAT(result.weights, ElementsAre(0, 0));
  EXPECT_THAT(result.lse, ElementsAre(kExcluded));
  EXPECT_THAT(result.entropy, ElementsAre(0));
  EXPECT_THAT(result.top_key, ElementsAre(-1));
}

TEST(OracleTest, SlopesInterleaveWhereHeadsAreNoPowerOfTwo) {
  // Press et al. 2022: 8 heads start at 1/2 and halve; 3 heads are those of 2,
  // 2^-4 and 2^-8, and the first of 4, 2^-2.
  EXPECT_THAT(PublishedSlopes(8), ElementsAre(0.5, 0.25, 0.125, 0.0625, 0x1p-5,
                                              0x1p-6, 0x1p-7, 0x1p-8));
  EXPECT_THAT(PublishedSlopes(3), ElementsAre(0x1p-4, 0x1p-8, 0x1p-2));
}

}  // namespace
}  // namespace attn::oracle
