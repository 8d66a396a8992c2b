// Row statistics that are gathered tile by tile against those of whole rows.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/variants/any_call.h"

namespace attn::testing {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kRows = 70;
constexpr int64_t kKeys = 700;
constexpr int64_t kDim = 20;

// Owns q, k, v and what a test adds. Thread-compatible.
struct Call {
  explicit Call(double spread = 1) {
    const auto put = [&](int64_t rows, double frequency, double factor) {
      std::vector<float> values = Wave(kHeads * rows * kDim, frequency);
      for (float& x : values) x = static_cast<float>(factor * x);
      return store.Put(DType::kF32, {1, kHeads, rows, kDim}, values);
    };
    args.q = put(kRows, 0.7, spread);
    args.k = put(kKeys, 0.3, 1);
    args.v = put(kKeys, 0.9, 1);
  }

  // A bias of each key, all 0 but for some.
  void AddBias(const std::vector<std::pair<size_t, float>>& some) {
    std::vector<float> bias(kKeys, 0);
    for (const auto& [key, value] : some) bias[key] = value;
    args.inputs.push_back(store.Put(DType::kF32, {kKeys}, bias));
    spec.biases.push_back(
        DenseBias{static_cast<uint32_t>(args.inputs.size() - 1)});
  }

  std::vector<RowStatistics> Run(const std::string& kernel, int workers = 1) {
    Engine engine({.workers = workers});
    const auto plan = engine.Plan(
        spec, args, {.output = false, .statistics = true}, DType::kF32, kernel);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {};
    return engine.Run(*plan, args, {}).row_statistics;
  }

  TensorStore store;
  AttentionArgs args;
  AttentionSpec spec;
};

void ExpectClose(double got, double want, const char* what, size_t row) {
  if (std::isnan(want)) {
    ASSERT_TRUE(std::isnan(got)) << what << " of row " << row;
  } else if (std::isinf(want)) {
    ASSERT_EQ(got, want) << what << " of row " << row;
  } else {
    ASSERT_NEAR(got, want, 1e-5 * (1 + std::abs(want)))
        << what << " of row " << row;
  }
}

void ExpectThoseOfWholeRows(Call& call) {
  const std::vector<RowStatistics> got = call.Run("flash_simd");
  const std::vector<RowStatistics> want = call.Run("rowwise");
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].visible_keys, want[r].visible_keys) << r;
    ASSERT_EQ(got[r].top_key, want[r].top_key) << r;
    ExpectClose(got[r].lse, want[r].lse, "lse", r);
    ExpectClose(got[r].entropy, want[r].entropy, "entropy", r);
    ExpectClose(got[r].logit_mean, want[r].logit_mean, "mean", r);
    ExpectClose(got[r].logit_std, want[r].logit_std, "deviation", r);
    ExpectClose(got[r].contribution, want[r].contribution, "contribution", r);
  }
}

TEST(OnlineStatisticsTest, AreThoseOfWholeRows) {
  for (const double spread : {1e-3, 1.0, 30.0}) {
    Call call(spread);
    ExpectThoseOfWholeRows(call);
  }
}

TEST(OnlineStatisticsTest, MasksLengthsAndSinksChangeThemAlike) {
  Call call;
  call.spec.masks = {
      CausalMask{Alignment::kBottomRight},
      WindowMask{
          .left = 300, .right = {}, .alignment = Alignment::kBottomRight}};
  call.spec.temperatures = {0.5};
  call.args.kv_lengths = {650};
  call.args.inputs.push_back(
      call.store.Put(DType::kF32, {kHeads}, std::vector<float>{1, -2}));
  call.spec.normalizer = SoftmaxNormalizer{.sink = 0};
  ExpectThoseOfWholeRows(call);
  call.spec.masks = {CausalMask{Alignment::kTopLeft}};
  ExpectThoseOfWholeRows(call);
}

// Squares of deviations from a far centre would lose the digits of the others.
TEST(OnlineStatisticsTest, OutliersKeepTheDigitsOfTheOthers) {
  for (const float outlier : {60.0F, -1e4F}) {
    for (const size_t key : {size_t{0}, size_t{300}, size_t{699}}) {
      Call call(1e-2);
      call.AddBias({{key, outlier}});
      ExpectThoseOfWholeRows(call);
    }
  }
  // A tile of which one key is visible, far from all others.
  Call call(1e-2);
  call.AddBias({{255, 50.0F}});
  std::vector<uint8_t> allowed(kKeys, 1);
  std::fill_n(allowed.begin(), 255, uint8_t{0});
  call.args.inputs.push_back(call.store.Put(DType::kBool, {kKeys}, allowed));
  call.spec.masks = {DenseMask{1}};
  ExpectThoseOfWholeRows(call);
}

TEST(OnlineStatisticsTest, NonFiniteLogitsSpoilTheirRowsAlike) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float value : {kInf, -kInf, std::nanf("")}) {
    for (const size_t key : {size_t{0}, size_t{300}, size_t{699}}) {
      Call call;
      call.AddBias({{key, value}});
      ExpectThoseOfWholeRows(call);
    }
  }
}

TEST(OnlineStatisticsTest, ChangeNoBitOfTheOutput) {
  Call call;
  call.spec.masks = {CausalMask{Alignment::kTopLeft}};
  Engine engine({.workers = 1});
  const Shape shape = {1, kHeads, kRows, kDim};
  std::vector<double> outputs[2];
  std::vector<RowStatistics> rows[2];
  for (const bool asked : {false, true}) {
    const auto plan = engine.Plan(call.spec, call.args, {.statistics = asked},
                                  DType::kF32, "flash_simd");
    ASSERT_TRUE(plan.ok()) << plan.status();
    const OutputRoom room(DType::kF32, shape);
    AttentionOutputs output;
    output.output = room.view();
    rows[asked] = engine.Run(*plan, call.args, output).row_statistics;
    outputs[asked] = room.values();
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  for (size_t r = 0; r < rows[0].size(); ++r) {
    ASSERT_EQ(rows[0][r].lse, rows[1][r].lse);
    ASSERT_EQ(rows[0][r].entropy, rows[1][r].entropy);
    ASSERT_EQ(rows[0][r].logit_std, 0);
  }
}

TEST(OnlineStatisticsTest, BitsDoNotDependOnTheWorkers) {
  Call call;
  const std::vector<RowStatistics> one = call.Run("flash_simd", 1);
  const std::vector<RowStatistics> three = call.Run("flash_simd", 3);
  ASSERT_EQ(one.size(), three.size());
  for (size_t r = 0; r < one.size(); ++r) {
    ASSERT_EQ(one[r].logit_mean, three[r].logit_mean);
    ASSERT_EQ(one[r].logit_std, three[r].logit_std);
    ASSERT_EQ(one[r].contribution, three[r].contribution);
  }
}

}  // namespace
}  // namespace attn::testing
