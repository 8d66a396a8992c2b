// Every kernel against the oracle, over random compositions of stages.
#include <cmath>

#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Case;
using oracle::Close;
using oracle::Random;
using oracle::Result;
using oracle::Tolerance;

// Of sums in F32 over up to 192 features and 130 keys.
constexpr Tolerance kSingle = {.absolute = 2e-5, .relative = 2e-5};
// Of sums in double.
constexpr Tolerance kDouble = {.absolute = 1e-12, .relative = 1e-12};

// The last rounding, to a type with so many bits of fraction.
Tolerance Stored(Tolerance computed, DType dtype) {
  if (dtype == DType::kF16) return {2e-5, 0x1p-11 + 2e-5};
  if (dtype == DType::kBF16) return {2e-5, 0x1p-8 + 2e-5};
  if (dtype == DType::kF32 && computed.relative < 0x1p-24) {
    return {0x1p-149, 0x1p-24};
  }
  return computed;
}

std::vector<double> Doubles(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

template <typename Member>
std::vector<double> Column(const std::vector<RowStatistics>& rows,
                           Member member) {
  std::vector<double> values;
  for (const RowStatistics& row : rows) {
    values.push_back(static_cast<double>(row.*member));
  }
  return values;
}

// The key that a row names as its top has, to the tolerance, the peak weight.
void ExpectTopKeys(const Outcome& got, const Result& want, int64_t keys) {
  for (size_t i = 0; i < got.rows.size(); ++i) {
    const int64_t top = got.rows[i].top_key;
    ASSERT_EQ(top < 0, want.top_key[i] < 0) << "row " << i;
    if (top < 0) continue;
    const size_t at = i * static_cast<size_t>(keys) + static_cast<size_t>(top);
    EXPECT_NEAR(want.weights[at], want.peak_weight[i], 2e-5) << "row " << i;
  }
}

void ExpectAgreement(const Outcome& got, const Case& call,
                     const CallOptions& options, Tolerance tolerance) {
  const Result want = Attend(call);
  const Tolerance wide = Stored(
      tolerance, options.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  EXPECT_TRUE(
      Close(got.output, want.output, Stored(tolerance, options.output_dtype)));
  EXPECT_TRUE(Close(got.lse, want.lse, wide));
  EXPECT_TRUE(Close(got.logits, want.logits, wide));
  EXPECT_TRUE(Close(got.masked_logits, want.masked_logits, wide));
  EXPECT_TRUE(Close(got.weights, want.weights, wide));
  EXPECT_TRUE(
      Close(Column(got.rows, &RowStatistics::lse), want.lse, tolerance));
  EXPECT_TRUE(Close(Column(got.rows, &RowStatistics::entropy), want.entropy,
                    {4 * tolerance.absolute, 4 * tolerance.relative}));
  EXPECT_TRUE(Close(Column(got.rows, &RowStatistics::peak_weight),
                    want.peak_weight, tolerance));
  EXPECT_TRUE(Close(Column(got.rows, &RowStatistics::visible_keys),
                    Doubles(want.visible_keys), {0, 0}));
  ExpectTopKeys(got, want, call.kv_length);
}

class AgreementTest : public EveryKernel {
 protected:
  void Check(Case call, const CallOptions& options) const {
    RoundTo(options.dtype, call);
    const EngineCall engine_call(call, options);
    if (!Supports(engine_call)) return;
    const bool exact = std::string(kernel().name()) == "reference";
    ExpectAgreement(engine_call.RunBackwards(kernel()), call, options,
                    exact ? kDouble : kSingle);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, AgreementTest, AllKernels(), KernelName);

TEST_P(AgreementTest, RandomSpecsInEveryTypeAgreeWithTheOracle) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16,
                              DType::kF64};
  constexpr Layout kLayouts[] = {Layout::kBhsd, Layout::kBshd, Layout::kBhds};
  for (uint64_t seed = 0; seed < 96; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    CallOptions options;
    options.dtype = kTypes[seed % 4];
    options.layout = kLayouts[seed % 3];
    const bool converts = seed % 5 == 0 && options.dtype != DType::kF64;
    options.output_dtype = converts ? kTypes[seed / 20 % 3] : options.dtype;
    Check(oracle::RandomCase(random), options);
  }
}

TEST_P(AgreementTest, LongRowsCrossEveryBlockAndChunk) {
  Random random(7);
  Case call;
  call.q_heads = 2;
  call.q_length = 150;
  call.kv_length = 1100;
  call.qk_dim = 16;
  call.v_dim = 24;
  FillTensors(random, call);
  Check(call, {});
  call.bands = {{.left = 300, .right = 20, .bottom_right = true}};
  Check(call, {});
  Check(call, {.dtype = DType::kBF16, .output_dtype = DType::kBF16});
  Check(call, {.layout = Layout::kBhds});
}

TEST_P(AgreementTest, ScoresThatNobodyAsksForChangeNothing) {
  Random random(11);
  for (int i = 0; i < 20; ++i) {
    Case call = oracle::RandomCase(random);
    RoundTo(DType::kF32, call);
    const Outcome all = Run(call);
    Outcome few = Run(call, {.scores = false});
    EXPECT_TRUE(few.logits.empty());
    few.logits = all.logits;
    few.masked_logits = all.masked_logits;
    few.weights = all.weights;
    EXPECT_TRUE(few.SameBits(all)) << "case " << i;
  }
}

}  // namespace
}  // namespace attn::testing
