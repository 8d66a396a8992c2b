// int8 keys and values: x = q * scale, before any stage sees it.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/engine/variants/any_call.h"

namespace attn::testing {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kQHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kQueries = 5;
constexpr int64_t kKeys = 37;
constexpr int64_t kDim = 8;
constexpr int64_t kRows = kBatch * kKvHeads * kKeys;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const Shape kKvShape = {kBatch, kKvHeads, kKeys, kDim};

// The scale of row `row` of [B, Hkv, Sk]; a product with a byte is exact.
float ScaleOf(QuantizationGranularity granularity, int64_t row, int which) {
  if (granularity == QuantizationGranularity::kPerTensor) row = 0;
  if (granularity == QuantizationGranularity::kPerHead) {
    row = row / kKeys % kKvHeads;
  }
  return static_cast<float>(row * 7 % 29 + 3 + which) / 512;
}

std::vector<float> Scales(QuantizationGranularity granularity, int which) {
  int64_t count = kRows;
  int64_t step = 1;
  if (granularity == QuantizationGranularity::kPerTensor) count = 1;
  if (granularity == QuantizationGranularity::kPerHead) {
    count = kKvHeads;
    step = kKeys;
  }
  std::vector<float> scales;
  for (int64_t i = 0; i < count; ++i) {
    scales.push_back(ScaleOf(granularity, i * step, which));
  }
  return scales;
}

Shape ScaleShape(QuantizationGranularity granularity) {
  switch (granularity) {
    case QuantizationGranularity::kPerTensor:
      return {1};
    case QuantizationGranularity::kPerHead:
      return {kKvHeads};
    default:
      return {kBatch, kKvHeads, kKeys};
  }
}

std::vector<int8_t> Bytes(int which) {
  std::vector<int8_t> bytes;
  for (int64_t i = 0; i < kRows * kDim; ++i) {
    bytes.push_back(static_cast<int8_t>((i * i * 31 + which * 17) % 255 - 127));
  }
  return bytes;
}

// One call as integers with scales, and as the floats that they stand for.
struct Pair {
  explicit Pair(QuantizationGranularity granularity) {
    whole.q = store.Put(DType::kF32, {kBatch, kQHeads, kQueries, kDim},
                        Wave(kBatch * kQHeads * kQueries * kDim, 1));
    quantized.q = whole.q;
    TensorView* floats[] = {&whole.k, &whole.v};
    TensorView* bytes[] = {&quantized.k, &quantized.v};
    for (int i = 0; i < 2; ++i) {
      const std::vector<int8_t> values = Bytes(i);
      std::vector<float> stand_for;
      for (int64_t j = 0; j < kRows * kDim; ++j) {
        stand_for.push_back(static_cast<float>(values[static_cast<size_t>(j)]) *
                            ScaleOf(granularity, j / kDim, i));
      }
      *bytes[i] = store.Put(DType::kI8, kKvShape, values);
      *floats[i] = store.Put(DType::kF32, kKvShape, stand_for);
      quantized.inputs.push_back(store.Put(DType::kF32, ScaleShape(granularity),
                                           Scales(granularity, i)));
      whole.inputs.push_back(quantized.inputs.back());
    }
    spec.kv_quantization = KvQuantization{granularity, 0, 1};
  }

  void ExpectSame(AttentionSpec stages, const std::string& kernel) const {
    const AnyOutcome expected = RunAny(stages, whole, kernel);
    stages.kv_quantization = spec.kv_quantization;
    const AnyOutcome got = RunAny(stages, quantized, kernel);
    EXPECT_EQ(BitsOf(got.output), BitsOf(expected.output));
    EXPECT_EQ(BitsOf(got.weights), BitsOf(expected.weights));
    EXPECT_EQ(BitsOf(got.lse), BitsOf(expected.lse));
  }

  TensorStore store;
  AttentionArgs whole;
  AttentionArgs quantized;
  AttentionSpec spec;
};

constexpr QuantizationGranularity kGranularities[] = {
    QuantizationGranularity::kPerTensor, QuantizationGranularity::kPerHead,
    QuantizationGranularity::kPerToken};

TEST(QuantizedKvTest, GiveTheBitsOfTheFloatsTheyStandFor) {
  for (const QuantizationGranularity granularity : kGranularities) {
    const Pair pair(granularity);
    for (const char* kernel : {"rowwise", "reference"}) {
      SCOPED_TRACE(kernel);
      pair.ExpectSame({}, kernel);
    }
  }
}

TEST(QuantizedKvTest, NoStageSeesTheIntegers) {
  const Pair pair(QuantizationGranularity::kPerToken);
  AttentionSpec normed;
  normed.transforms = {NormTransform{}, RotaryTransform{}};
  AttentionSpec cosine;
  cosine.score = CosineScore{};
  AttentionSpec distance;
  distance.score = DistanceScore{};
  for (const AttentionSpec& spec : {normed, cosine, distance}) {
    pair.ExpectSame(spec, "rowwise");
    pair.ExpectSame(spec, "reference");
  }
  AttentionSpec linear;
  LinearNormalizer whole_sums;
  whole_sums.bidirectional = true;
  linear.normalizer = whole_sums;
  pair.ExpectSame(linear, "linear");
}

TEST(QuantizedKvTest, OneQueryByTheFormula) {
  TensorStore store;
  AttentionArgs args;
  args.q = store.Put<double>(DType::kF64, {1, 1, 1, 1}, {2});
  args.k = store.Put<int8_t>(DType::kI8, {1, 1, 2, 1}, {-128, 127});
  args.v = store.Put<int8_t>(DType::kI8, {1, 1, 2, 1}, {3, -5});
  args.inputs = {store.Put<float>(DType::kF32, {1}, {0.01F}),
                 store.Put<float>(DType::kF32, {1}, {0.5F})};
  AttentionSpec spec;
  spec.kv_quantization =
      KvQuantization{QuantizationGranularity::kPerTensor, 0, 1};
  const AnyOutcome got = RunAny(spec, args, "reference");
  const double scale = static_cast<double>(0.01F);
  const double a = std::exp(2 * -128 * scale);
  const double b = std::exp(2 * 127 * scale);
  ASSERT_EQ(got.output.size(), 1u);
  EXPECT_NEAR(got.weights[0], a / (a + b), 1e-15);
  EXPECT_NEAR(got.output[0], (a * 3 - b * 5) * 0.5 / (a + b), 1e-14);
  EXPECT_NEAR(got.lse[0], std::log(a + b), 1e-14);
  EXPECT_EQ(got.pipeline.rfind("int8(per_tensor) -> ", 0), 0u) << got.pipeline;
}

TEST(QuantizedKvTest, NothingBeyondALengthIsRead) {
  const Pair clean(QuantizationGranularity::kPerToken);
  Pair poisoned(QuantizationGranularity::kPerToken);
  const std::vector<int64_t> lengths = {20, 0};
  for (int i = 0; i < 2; ++i) {
    std::vector<float> scales = Scales(QuantizationGranularity::kPerToken, i);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t batch = row / kKeys / kKvHeads;
      if (row % kKeys >= lengths[static_cast<size_t>(batch)]) {
        scales[static_cast<size_t>(row)] = kNan;
      }
    }
    poisoned.quantized.inputs[static_cast<size_t>(i)] =
        poisoned.store.Put(DType::kF32, {kBatch, kKvHeads, kKeys}, scales);
  }
  for (const char* kernel : {"rowwise", "reference"}) {
    AttentionArgs args = clean.quantized;
    args.kv_lengths = lengths;
    const AnyOutcome expected = RunAny(clean.spec, args, kernel);
    args = poisoned.quantized;
    args.kv_lengths = lengths;
    const AnyOutcome got = RunAny(clean.spec, args, kernel);
    EXPECT_EQ(BitsOf(got.output), BitsOf(expected.output));
    EXPECT_EQ(got.report.nonfinite_k, 0);
    EXPECT_EQ(got.report.nonfinite_v, 0);
  }
}

TEST(QuantizedKvTest, AScaleOfNaNIsCountedAsItsRows) {
  Pair pair(QuantizationGranularity::kPerTensor);
  pair.quantized.inputs[0] = pair.store.Put<float>(DType::kF32, {1}, {kNan});
  const AnyOutcome got = RunAny(pair.spec, pair.quantized, "rowwise");
  EXPECT_EQ(got.report.nonfinite_k, kRows * kDim);
  EXPECT_EQ(got.report.nonfinite_v, 0);
}

struct Mistake {
  const char* field;
  void (*make)(Pair& pair);
};

constexpr Mistake kMistakes[] = {
    {"k.dtype", [](Pair& p) { p.spec.kv_quantization.reset(); }},
    {"k.dtype", [](Pair& p) { p.quantized.k = p.whole.k; }},
    {"v.dtype", [](Pair& p) { p.quantized.v = p.whole.v; }},
    {"q.dtype", [](Pair& p) { p.quantized.q.dtype = DType::kI8; }},
    {"spec.kv_quantization.granularity",
     [](Pair& p) {
       p.spec.kv_quantization->granularity =
           static_cast<QuantizationGranularity>(9);
     }},
    {"spec.kv_quantization.key_scale.input",
     [](Pair& p) { p.spec.kv_quantization->key_scale = 2; }},
    {"spec.kv_quantization.value_scale.input",
     [](Pair& p) { p.quantized.inputs[1].shape = {kKvHeads + 1}; }},
    {"spec.kv_quantization.value_scale.input",
     [](Pair& p) { p.quantized.inputs[1].dtype = DType::kF64; }},
};

TEST(QuantizedKvTest, AMistakeIsNamedByItsField) {
  for (const Mistake& mistake : kMistakes) {
    Pair pair(QuantizationGranularity::kPerHead);
    EXPECT_TRUE(CheckAny(pair.spec, pair.quantized).ok());
    mistake.make(pair);
    const absl::Status status = CheckAny(pair.spec, pair.quantized);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), mistake.field) << status;
  }
}

}  // namespace
}  // namespace attn::testing
