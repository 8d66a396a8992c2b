// More query rows than one job takes, and more keys than a tile: every kernel,
// in all its phases.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

using oracle::Attend;
using oracle::Case;
using oracle::Close;
using oracle::Random;
using oracle::Result;

struct Extents {
  int64_t batch = 1;
  int64_t q_heads = 2;
  int64_t kv_heads = 1;
  // Of a KV head more than the 512 that flash_simd has in one job.
  int64_t q_length = 300;
  // Two tiles of it, the last one short.
  int64_t kv_length = 700;
  int64_t qk_dim = 9;
  int64_t v_dim = 7;
};

Case CaseOf(const Extents& extents) {
  Random random(61);
  Case call;
  call.batch = extents.batch;
  call.q_heads = extents.q_heads;
  call.kv_heads = extents.kv_heads;
  call.q_length = extents.q_length;
  call.kv_length = extents.kv_length;
  call.qk_dim = extents.qk_dim;
  call.v_dim = extents.v_dim;
  FillTensors(random, call);
  return call;
}

class ManyQueriesTest : public EveryKernel {
 protected:
  void ExpectAgreement(Case call, DType dtype = DType::kF32) const {
    RoundTo(dtype, call);
    const CallOptions options =
        Options({.dtype = dtype, .output_dtype = dtype});
    ASSERT_TRUE(Supports(EngineCall(call, options)));
    const Outcome got = Run(call, options);
    const Result want = Attend(call);
    const double rounding = dtype == DType::kF32 ? 0 : 0x1p-8;
    EXPECT_TRUE(Close(got.output, want.output, {3e-5, 3e-5 + rounding}));
    EXPECT_TRUE(Close(got.lse, want.lse, {2e-5, 2e-5}));
    for (size_t i = 0; i < got.rows.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "row " << i);
      ASSERT_EQ(got.rows[i].visible_keys, want.visible_keys[i]);
      ASSERT_NEAR(got.rows[i].entropy, want.entropy[i], 1e-4);
      ASSERT_NEAR(got.rows[i].peak_weight, want.peak_weight[i], 2e-5);
    }
  }
};

// Not the reference, whose loops know no tiles: these cases are long for it.
// And not flash_onednn, which takes BF16 only: flash_onednn_test.cc.
auto TiledKernels() {
  std::vector<const Kernel*> kernels;
  for (const Kernel* kernel : KernelTable()) {
    const std::string name = kernel->name();
    if (name == "flash_simd" || name == "rowwise") {
      kernels.push_back(kernel);
    }
  }
  return ::testing::ValuesIn(kernels);
}
INSTANTIATE_TEST_SUITE_P(Kernels, ManyQueriesTest, TiledKernels(), KernelName);

TEST_P(ManyQueriesTest, AgreesWithTheFormulas) { ExpectAgreement(CaseOf({})); }

TEST_P(ManyQueriesTest, AgreesInEveryWidth) {
  for (const int64_t width : {1, 33}) {
    ExpectAgreement(CaseOf({.qk_dim = width, .v_dim = width + 3}));
  }
}

TEST_P(ManyQueriesTest, AgreesInEveryType) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    ExpectAgreement(CaseOf({}), dtype);
  }
}

TEST_P(ManyQueriesTest, AgreesWithGroupsOfHeads) {
  ExpectAgreement(CaseOf({.q_heads = 8, .kv_heads = 2, .q_length = 131}));
  ExpectAgreement(CaseOf({.q_heads = 8, .kv_heads = 1, .q_length = 65}));
}

TEST_P(ManyQueriesTest, AgreesUnderBandsOfKeys) {
  for (const bool bottom_right : {false, true}) {
    Case call = CaseOf({});
    call.bands = {{.left = {}, .right = 0, .bottom_right = bottom_right}};
    ExpectAgreement(call);
    call.bands = {{.left = 37, .right = 5, .bottom_right = bottom_right}};
    ExpectAgreement(call);
    call.bands.push_back({.left = 600, .right = -20, .bottom_right = true});
    ExpectAgreement(call);
  }
}

TEST_P(ManyQueriesTest, AgreesWithEveryStageBeforeTheSoftmax) {
  Case call = CaseOf({.batch = 2});
  Random random(62);
  const oracle::Tensor bias{{300, 700}, oracle::Normal(random, 300 * 700)};
  oracle::Tensor mask{{300, 700}, {}};
  for (int64_t i = 0; i < 300 * 700; ++i) {
    mask.data.push_back(oracle::Below(random, 3) > 0 ? 1 : 0);
  }
  call.softcap = 3;
  call.dense_biases = {bias};
  call.alibi_biases = {{}};
  call.dense_masks = {mask};
  call.bands = {{.left = {}, .right = 0, .bottom_right = true}};
  call.q_lengths = {300, 123};
  call.kv_lengths = {513, 699};
  call.temperatures = {0.7, 1.9};
  ExpectAgreement(call);
}

// A band of rows that sees nothing stands between others that do.
TEST_P(ManyQueriesTest, RowsWithoutKeysAmongOthers) {
  Case call = CaseOf({});
  oracle::Tensor mask{{300, 1}, std::vector<double>(300, 1)};
  for (size_t r = 70; r < 90; ++r) mask.data[r] = 0;
  call.dense_masks = {mask};
  ExpectAgreement(call);
}

TEST_P(ManyQueriesTest, PoisonReachesOnlyTheRowsThatSeeIt) {
  constexpr double kPoisons[] = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity()};
  // Keys of the first and of the last tile.
  constexpr int64_t kPoisoned[] = {130, 690};
  Case call = CaseOf({.batch = 2});
  call.bands = {{.left = {}, .right = 0, .bottom_right = true}};
  RoundTo(DType::kF32, call);
  const Outcome clean = Run(call);
  for (const double poison : kPoisons) {
    for (const int64_t key : kPoisoned) {
      Case changed = call;
      changed.v[static_cast<size_t>(key * call.v_dim + 2)] = poison;
      const Outcome got = Run(changed);
      EXPECT_EQ(got.nonfinite_v, 1);
      for (size_t i = 0; i < got.output.size(); ++i) {
        const int64_t element = static_cast<int64_t>(i) % call.v_dim;
        const int64_t row =
            static_cast<int64_t>(i) / call.v_dim % call.q_length;
        const bool is_first = static_cast<int64_t>(i) <
                              2 * call.q_length * call.v_dim;  // entry 0
        const bool sees = key <= row + call.kv_length - call.q_length;
        if (is_first && sees && element == 2) {
          ASSERT_FALSE(std::isfinite(got.output[i])) << i;
        } else {
          ASSERT_EQ(got.output[i], clean.output[i]) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attn::testing
