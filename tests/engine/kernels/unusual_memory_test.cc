// Tensors that lie in memory as few do, and numbers at the edge of their type.
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/engine.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/every_kernel.h"
#include "tests/testing/random_case.h"

namespace attn::testing {
namespace {

constexpr int64_t kWidth = 33;

// q, k and v of one head, from numbers that need not be aligned.
struct Call {
  int64_t rows = 1;
  int64_t keys = 1;
  size_t offset = 0;  // of every tensor, in bytes
  int64_t key_stride = kWidth;
  DType dtype = DType::kF32;
  double scale = 0.2;
};

class UnusualMemoryTest : public EveryKernel {
 protected:
  TensorView Store(const std::vector<double>& values, Shape shape,
                   const Call& call) {
    const size_t width = SizeOf(call.dtype);
    storage_.emplace_back(values.size() * width + call.offset + 1);
    std::byte* to = storage_.back().data() + call.offset;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto x = static_cast<float>(values[i]);
      uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof(x));
      if (call.dtype == DType::kBF16) bits >>= 16;
      std::memcpy(to + i * width, &bits, width);
    }
    return TensorView::Dense(to, call.dtype, shape);
  }

  // The output, as floats; empty if the kernel does not compute it.
  std::vector<float> Run(const Call& call, const std::vector<double>& q,
                         const std::vector<double>& k,
                         const std::vector<double>& v) {
    AttentionArgs args;
    args.q = Store(q, {1, 1, call.rows, kWidth}, call);
    args.k = Store(k, {1, 1, call.keys, kWidth}, call);
    args.v = Store(v, {1, 1, call.keys, kWidth}, call);
    args.k.strides[2] = args.v.strides[2] = call.key_stride;
    AttentionSpec spec;
    DotScore score;
    score.scale = call.scale;
    spec.score = score;
    const auto plan =
        engine_.Plan(spec, args, {}, DType::kF32, kernel().name());
    if (!plan.ok()) return {};
    std::vector<float> output(static_cast<size_t>(call.rows * kWidth), NAN);
    AttentionOutputs outputs;
    outputs.output =
        MutableTensorView::Dense(reinterpret_cast<std::byte*>(output.data()),
                                 DType::kF32, {1, 1, call.rows, kWidth});
    EXPECT_TRUE(engine_.Run(*plan, args, outputs).status.ok());
    return output;
  }

  static std::vector<double> Numbers(int64_t count, uint64_t seed) {
    oracle::Random random(seed);
    return oracle::Normal(random, count);
  }

 private:
  Engine engine_{{.workers = 1}};
  std::vector<std::vector<std::byte>> storage_;
};
INSTANTIATE_TEST_SUITE_P(Kernels, UnusualMemoryTest,
                         ::testing::ValuesIn(KernelTable().begin(),
                                             KernelTable().end()),
                         KernelName);

TEST_P(UnusualMemoryTest, FloatsAtOddAddressesAreReadAsTheyAre) {
  for (const int64_t rows : {1, 40}) {
    Call call{.rows = rows, .keys = 150};
    const auto q = Numbers(rows * kWidth, 1);
    const auto k = Numbers(150 * kWidth, 2);
    const auto v = Numbers(150 * kWidth, 3);
    const std::vector<float> want = Run(call, q, k, v);
    for (const size_t offset : {1, 2, 3}) {
      call.offset = offset;
      EXPECT_EQ(Run(call, q, k, v), want) << "offset " << offset;
    }
  }
}

// One key for all: rows that lie on each other.
TEST_P(UnusualMemoryTest, AKeyThatIsBroadcastIsEveryKey) {
  for (const int64_t rows : {1, 40}) {
    const Call call{.rows = rows, .keys = 150, .key_stride = 0};
    const auto v = Numbers(150 * kWidth, 3);
    const std::vector<float> got =
        Run(call, Numbers(rows * kWidth, 1), Numbers(150 * kWidth, 2), v);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], v[i % kWidth], 1e-5);  // sums in F32
    }
  }
}

// flash_onednn scales after the product, which is infinite here.
TEST_P(UnusualMemoryTest, AScaleOfZeroIsUniformWhateverTheProductsAre) {
  for (const int64_t rows : {1, 40}) {
    const Call call{
        .rows = rows, .keys = 150, .dtype = DType::kBF16, .scale = 0};
    const std::vector<double> huge(150 * kWidth, 1e30);
    const std::vector<double> ones(150 * kWidth, 1);
    const std::vector<double> q(static_cast<size_t>(rows * kWidth), 1e30);
    for (const float x : Run(call, q, huge, ones)) EXPECT_NEAR(x, 1, 1e-5);
  }
}

}  // namespace
}  // namespace attn::testing
