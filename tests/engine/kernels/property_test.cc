// What attention must obey whatever the numbers are.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Close;
using oracle::Random;

Case PlainCase(uint64_t seed) {
  Random random(seed);
  Case call;
  call.batch = 2;
  call.q_heads = 4;
  call.kv_heads = 2;
  call.q_length = 70;
  call.kv_length = 70;
  call.qk_dim = 24;
  call.v_dim = 16;
  FillTensors(random, call);
  RoundTo(DType::kF32, call);
  return call;
}

class PropertyTest : public EveryKernel {};

INSTANTIATE_TEST_SUITE_P(Kernels, PropertyTest, AllKernels(), KernelName);

TEST_P(PropertyTest, WeightsOfARowSumToOneOrToNothing) {
  for (uint64_t seed = 100; seed < 130; ++seed) {
    Random random(seed);
    Case call = oracle::RandomCase(random);
    // Every element of the output is then the sum of its row's weights, which
    // some kernels never hold.
    std::fill(call.v.begin(), call.v.end(), 1.0);
    RoundTo(DType::kF32, call);
    const Outcome got = Run(call);
    for (size_t r = 0; r < got.rows.size(); ++r) {
      const double want = got.rows[r].visible_keys > 0 ? 1 : 0;
      for (int64_t c = 0; c < call.v_dim; ++c) {
        const size_t at =
            r * static_cast<size_t>(call.v_dim) + static_cast<size_t>(c);
        ASSERT_NEAR(got.output[at], want, 1e-5)
            << "seed " << seed << ", row " << r;
      }
      if (!HoldsRows()) continue;
      const auto begin =
          got.weights.begin() + static_cast<int64_t>(r) * call.kv_length;
      const double sum = std::accumulate(begin, begin + call.kv_length, 0.0);
      ASSERT_NEAR(sum, want, 1e-5) << "seed " << seed << ", row " << r;
    }
  }
}

TEST_P(PropertyTest, TheFutureCannotChangeThePast) {
  constexpr int64_t kPast = 41;
  Case call = PlainCase(1);
  call.bands = {{.left = {}, .right = 0, .bottom_right = false}};
  const Outcome before = Run(call);
  for (const double poison : {3.5, std::nan(""), -HUGE_VAL}) {
    Case changed = call;
    const auto change = [&](std::vector<double>& values, int64_t width) {
      const int64_t head = call.kv_length * width;
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t key = static_cast<int64_t>(i) % head / width;
        if (key >= kPast) values[i] = poison;
      }
    };
    change(changed.k, call.qk_dim);
    change(changed.v, call.v_dim);
    const Outcome after = Run(changed);
    for (size_t r = 0; r < before.rows.size(); ++r) {
      if (static_cast<int64_t>(r) % call.q_length >= kPast) continue;
      ASSERT_EQ(before.lse[r], after.lse[r]) << "row " << r;
      for (size_t c = 0; c < 16; ++c) {
        ASSERT_EQ(before.output[r * 16 + c], after.output[r * 16 + c])
            << "row " << r << " with " << poison << " to come";
      }
    }
  }
}

TEST_P(PropertyTest, OrderOfKeysDoesNotMatter) {
  const Case call = PlainCase(2);
  std::vector<size_t> order(static_cast<size_t>(call.kv_length));
  std::iota(order.begin(), order.end(), 0);
  Random random(3);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(oracle::Below(
                                random, static_cast<int64_t>(i)))]);
  }
  // Row r of each head moves to where order[r] was.
  const auto permute = [&](const std::vector<double>& values, size_t width) {
    std::vector<double> moved(values.size());
    const size_t head = order.size() * width;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t key = i % head / width;
      moved[i] = values[i / head * head + order[key] * width + i % width];
    }
    return moved;
  };
  Case permuted = call;
  permuted.k = permute(call.k, static_cast<size_t>(call.qk_dim));
  permuted.v = permute(call.v, static_cast<size_t>(call.v_dim));
  const Outcome a = Run(call);
  const Outcome b = Run(permuted);
  EXPECT_TRUE(Close(b.output, a.output, {1e-6, 1e-5}));
  EXPECT_TRUE(Close(b.weights, permute(a.weights, 1), {1e-7, 1e-5}));
}

TEST_P(PropertyTest, ConstantOnARowsLogitsChangesOnlyItsLse) {
  const Case call = PlainCase(4);
  Case shifted = call;
  oracle::Tensor bias{{call.q_length, 1}, {}};
  for (int64_t i = 0; i < call.q_length; ++i) {
    bias.data.push_back(static_cast<double>(i % 7) - 3);
  }
  shifted.dense_biases = {bias};
  const Outcome a = Run(call);
  const Outcome b = Run(shifted);
  EXPECT_TRUE(Close(b.weights, a.weights, {1e-7, 1e-5}));
  EXPECT_TRUE(Close(b.output, a.output, {1e-6, 1e-5}));
  for (size_t r = 0; r < a.lse.size(); ++r) {
    const double added = bias.data[r % bias.data.size()];
    ASSERT_NEAR(b.lse[r], a.lse[r] + added, 1e-5);
  }
}

TEST_P(PropertyTest, OutputLiesWithinTheValuesItSees) {
  const Case call = PlainCase(5);
  const auto [low, high] = std::minmax_element(call.v.begin(), call.v.end());
  for (const double value : Run(call).output) {
    ASSERT_GE(value, *low);
    ASSERT_LE(value, *high);
  }
}

TEST_P(PropertyTest, QueryHeadsOfAGroupWithEqualQueriesAreEqual) {
  Case call = PlainCase(6);
  const int64_t head = call.q_length * call.qk_dim;
  std::copy_n(call.q.begin(), head, call.q.begin() + head);
  const Outcome got = Run(call);
  const int64_t width = call.q_length * call.v_dim;
  EXPECT_TRUE(std::equal(got.output.begin(), got.output.begin() + width,
                         got.output.begin() + width));
}

TEST_P(PropertyTest, HugeLogitsGiveAOneHotRow) {
  Case call = PlainCase(7);
  call.scale = 1e4;
  for (const RowStatistics& row : Run(call).rows) {
    ASSERT_NEAR(row.peak_weight, 1, 1e-3);
    ASSERT_NEAR(row.entropy, 0, 1e-2);
    ASSERT_NEAR(row.lse, row.logit_max, 1e-3 * std::fabs(row.logit_max));
  }
}

}  // namespace
}  // namespace attn::testing
