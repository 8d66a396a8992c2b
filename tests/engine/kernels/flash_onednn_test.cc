#include "engine/kernels/flash_onednn.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "engine/kernels/onednn_matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/compare.h"
#include "tests/testing/engine_call.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Close;
using ::testing::HasSubstr;

constexpr CallOptions kBf16 = {.dtype = DType::kBF16,
                               .output_dtype = DType::kF32,
                               .scores = false,
                               .statistics = false};

class FlashOneDnnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (OneDnnNarrowProducts() == NarrowProducts::kNone) {
      GTEST_SKIP() << "this machine has no products of BF16";
    }
  }

  static std::string WhyNot(const Case& call,
                            const CallOptions& options = kBf16) {
    const auto problem = EngineCall(call, options).MakeProblem();
    EXPECT_TRUE(problem.ok()) << problem.status();
    return FlashOneDnnKernel().WhyNot(*problem);
  }

  static Outcome Run(const Case& call, const CallOptions& options = kBf16) {
    return EngineCall(call, options).RunBackwards(FlashOneDnnKernel());
  }

  static void ExpectAgreement(const Case& call) {
    const Outcome got = Run(call);
    const oracle::Result want = oracle::Attend(call);
    EXPECT_TRUE(Close(got.output, want.output, {4e-5, 4e-5}));
    EXPECT_TRUE(Close(got.lse, want.lse, {2e-5, 2e-5}));
  }
};

Case CaseOf(int64_t q_length, int64_t kv_length, int64_t qk_dim = 64) {
  oracle::Random random(7);
  Case call;
  call.batch = 2;
  call.q_heads = 4;
  call.kv_heads = 2;
  call.q_length = q_length;
  call.kv_length = kv_length;
  call.qk_dim = qk_dim;
  call.v_dim = 24;
  FillTensors(random, call);
  RoundTo(DType::kBF16, call);
  return call;
}

TEST_F(FlashOneDnnTest, StagesOfEveryKindAgreeWithTheOracle) {
  oracle::Random random(11);
  int computed = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    Case call = oracle::RandomCase(random);
    RoundTo(DType::kBF16, call);
    if (!WhyNot(call).empty()) continue;
    ++computed;
    ExpectAgreement(call);
  }
  EXPECT_GT(computed, 40);
}

TEST_F(FlashOneDnnTest, ExtentsThatFillNoTileAgreeWithTheOracle) {
  for (const int64_t rows : {1, 17, 64, 130}) {
    for (const int64_t keys : {1, 63, 65, 256, 257, 700}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << keys);
      ExpectAgreement(CaseOf(rows, keys));
    }
  }
  for (const int64_t width : {1, 3, 33, 128}) {
    SCOPED_TRACE(width);
    ExpectAgreement(CaseOf(20, 300, width));
  }
}

TEST_F(FlashOneDnnTest, WindowsAndLengthsAgreeWithTheOracle) {
  Case call = CaseOf(300, 500);
  call.bands = {{.left = 40, .right = 0, .bottom_right = true}};
  ExpectAgreement(call);
  call.bands = {{.left = std::nullopt, .right = 0, .bottom_right = false}};
  call.q_lengths = {211, 300};
  call.kv_lengths = {500, 77};
  ExpectAgreement(call);
}

TEST_F(FlashOneDnnTest, EveryLayoutGivesTheSameBits) {
  const Case call = CaseOf(70, 300);
  const Outcome dense = Run(call);
  for (const Layout layout : {Layout::kBshd, Layout::kBhds}) {
    CallOptions options = kBf16;
    options.layout = layout;
    EXPECT_TRUE(Run(call, options).SameBits(dense));
  }
}

TEST_F(FlashOneDnnTest, NonFiniteKeysAreCountedAndReachWhoSeesThem) {
  Case call = CaseOf(40, 300);
  call.bands = {{.left = std::nullopt, .right = 0, .bottom_right = false}};
  // Key 20 of the first KV head of the first batch entry.
  call.k[static_cast<size_t>(20 * call.qk_dim + 5)] =
      std::numeric_limits<double>::quiet_NaN();
  const Outcome got = Run(call);
  EXPECT_EQ(got.nonfinite_k, 1);
  for (int64_t row = 0; row < call.q_length; ++row) {
    const double first = got.output[static_cast<size_t>(row * call.v_dim)];
    EXPECT_EQ(std::isnan(first), row >= 20) << row;
  }
}

TEST_F(FlashOneDnnTest, WhatIsNoBf16IsLeftToOthers) {
  const Case call = CaseOf(8, 8);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    CallOptions options = kBf16;
    options.dtype = dtype;
    EXPECT_THAT(WhyNot(call, options), HasSubstr("another type"));
  }
}

}  // namespace
}  // namespace attn::testing
