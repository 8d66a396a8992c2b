// The kernel for few queries against what the reference makes of the same call,
// for the stages, types and layouts that oracle cases do not have.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/half.h"
#include "gtest/gtest.h"
#include "tests/engine/variants/any_call.h"

namespace attn::testing {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kQHeads = 6;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kQueries = 2;
// More than a chunk of narrow keys, and no multiple of anything.
constexpr int64_t kKeys = 4099;
constexpr int64_t kDim = 12;
constexpr int64_t kVDim = 10;
constexpr int64_t kPlanes = kBatch * kKvHeads;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr QuantizationGranularity kGranularities[] = {
    QuantizationGranularity::kPerTensor, QuantizationGranularity::kPerHead,
    QuantizationGranularity::kPerToken};

AttentionArgs Call(TensorStore& store) {
  AttentionArgs args;
  args.q = store.Put(DType::kF32, {kBatch, kQHeads, kQueries, kDim},
                     Wave(kBatch * kQHeads * kQueries * kDim, 1));
  args.k = store.Put(DType::kF32, {kBatch, kKvHeads, kKeys, kDim},
                     Wave(kPlanes * kKeys * kDim, 2));
  args.v = store.Put(DType::kF32, {kBatch, kKvHeads, kKeys, kVDim},
                     Wave(kPlanes * kKeys * kVDim, 3));
  return args;
}

std::vector<int8_t> Bytes(int64_t count, int which) {
  std::vector<int8_t> bytes;
  for (int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<int8_t>((i * i * 31 + which * 17) % 255 - 127));
  }
  return bytes;
}

Shape ScaleShape(QuantizationGranularity granularity) {
  if (granularity == QuantizationGranularity::kPerTensor) return {1};
  if (granularity == QuantizationGranularity::kPerHead) return {kKvHeads};
  return {kBatch, kKvHeads, kKeys};
}

std::vector<float> Scales(QuantizationGranularity granularity, int which) {
  std::vector<float> scales;
  for (int64_t i = 0; i < ScaleShape(granularity).element_count(); ++i) {
    scales.push_back(static_cast<float>(i * 7 % 29 + 3 + which) / 2048);
  }
  return scales;
}

// K and V as integers; inputs 0 and 1 are the scales.
AttentionArgs QuantizedCall(QuantizationGranularity granularity,
                            TensorStore& store) {
  AttentionArgs args = Call(store);
  args.k = store.Put(DType::kI8, args.k.shape,
                     Bytes(args.k.shape.element_count(), 0));
  args.v = store.Put(DType::kI8, args.v.shape,
                     Bytes(args.v.shape.element_count(), 1));
  for (const int which : {0, 1}) {
    args.inputs.push_back(store.Put(DType::kF32, ScaleShape(granularity),
                                    Scales(granularity, which)));
  }
  return args;
}

// The same elements at other places: axes in another order in memory.
template <typename T>
TensorView Moved(const TensorView& dense, int a, int b, TensorStore& store) {
  Shape shape = dense.SwapAxes(a, b).shape;
  const TensorView to =
      TensorView::Dense(nullptr, dense.dtype, shape).SwapAxes(a, b);
  std::vector<T> moved(static_cast<size_t>(shape.element_count()));
  const auto* from = reinterpret_cast<const T*>(dense.data);
  for (int64_t i = 0; i < dense.shape.element_count(); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (int axis = 3; axis >= 0; --axis) {
      at += rest % dense.shape[axis] * to.strides[static_cast<size_t>(axis)];
      rest /= dense.shape[axis];
    }
    moved[static_cast<size_t>(at)] = from[i];
  }
  return store.Put(dense.dtype, shape, moved).SwapAxes(a, b);
}

// Of sums in F32; infinities are equal.
void ExpectNear(double got, double want, double tolerance) {
  if (got == want) return;
  EXPECT_NEAR(got, want, tolerance * (1 + std::abs(want)));
}

void ExpectReference(const AttentionSpec& spec, const AttentionArgs& args) {
  const AnyOutcome want = RunAny(spec, args, "reference");
  const AnyOutcome got = RunAny(spec, args, "decode");
  ASSERT_EQ(got.output.size(), want.output.size());
  for (size_t i = 0; i < want.output.size(); ++i) {
    ASSERT_NEAR(got.output[i], want.output[i], 4e-5) << "output " << i;
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("row ", i));
    ExpectNear(got.lse[i], want.lse[i], 2e-5);
    const RowStatistics& row = got.report.row_statistics[i];
    const RowStatistics& of = want.report.row_statistics[i];
    ExpectNear(row.lse_with_sink, of.lse_with_sink, 2e-5);
    ExpectNear(row.entropy, of.entropy, 1e-4);
    ExpectNear(row.peak_weight, of.peak_weight, 2e-5);
    ExpectNear(row.logit_min, of.logit_min, 2e-5);
    ExpectNear(row.logit_max, of.logit_max, 2e-5);
    ASSERT_EQ(row.visible_keys, of.visible_keys);
  }
}

void ExpectSameBits(const AnyOutcome& got, const AnyOutcome& want) {
  EXPECT_EQ(BitsOf(got.output), BitsOf(want.output));
  EXPECT_EQ(BitsOf(got.lse), BitsOf(want.lse));
}

TEST(DecodeTest, StagesBeforeAndAfterTheSoftmax) {
  TensorStore store;
  AttentionArgs args = Call(store);
  args.inputs = {
      store.Put(DType::kF32, {kQHeads, 2}, Wave(kQHeads * 2, 4)),
      store.Put(DType::kF32, {kQHeads}, Wave(kQHeads, 5)),
      store.Put(DType::kF32, {kQueries, kKeys}, Wave(kQueries * kKeys, 6))};
  std::vector<AttentionSpec> specs(9);
  specs[0].normalizer = SoftmaxNormalizer{0};
  specs[1].normalizer = SoftmaxPlusNormalizer{3};
  specs[2].head_gate = 1;
  specs[3].dropout = DropoutSpec{0.3, 7, false, std::nullopt};
  specs[4].transforms = {RotaryTransform{}};
  specs[5].transforms = {NormTransform{}};
  specs[5].biases = {DenseBias{2}, AlibiBias{}};
  specs[6].score = CosineScore{};
  specs[7].score_program = ProgramSpec{"score + 0.1 * k / (1 + Sk)", {}};
  specs[8].masks = {ProgramMask{ProgramSpec{"k % 3 != h % 3", {}}}};
  specs[8].temperatures = {0.5, 1, 2, 3, 4, 5};
  for (size_t i = 0; i < specs.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectReference(specs[i], args);
  }
}

TEST(DecodeTest, SinksOfRowsThatSeeNoKey) {
  TensorStore store;
  AttentionArgs args = Call(store);
  args.inputs = {store.Put(DType::kF32, {kQHeads}, Wave(kQHeads, 4))};
  args.kv_lengths = {0, 3000};
  args.q_lengths = {kQueries, 1};
  AttentionSpec spec;
  spec.normalizer = SoftmaxNormalizer{0};
  ExpectReference(spec, args);
}

TEST(DecodeTest, QuantizedKeysOfEveryGranularity) {
  for (const QuantizationGranularity granularity : kGranularities) {
    SCOPED_TRACE(static_cast<int>(granularity));
    TensorStore store;
    const AttentionArgs args = QuantizedCall(granularity, store);
    AttentionSpec spec;
    spec.kv_quantization = KvQuantization{granularity, 0, 1};
    ExpectReference(spec, args);
    spec.masks = {WindowMask{3000, 0, Alignment::kBottomRight}};
    spec.transforms = {RotaryTransform{}};
    ExpectReference(spec, args);
  }
}

TEST(DecodeTest, EveryLayoutGivesTheBitsOfTheContiguousOne) {
  TensorStore store;
  const AttentionArgs dense = Call(store);
  const AttentionArgs quantized =
      QuantizedCall(QuantizationGranularity::kPerToken, store);
  AttentionSpec with_scales;
  with_scales.kv_quantization =
      KvQuantization{QuantizationGranularity::kPerToken, 0, 1};
  const AnyOutcome want = RunAny({}, dense, "decode");
  const AnyOutcome want_quantized = RunAny(with_scales, quantized, "decode");
  // [B, S, H, D]; [B, H, D, S].
  for (const int axis : {1, 3}) {
    SCOPED_TRACE(axis);
    AttentionArgs moved = dense;
    moved.q = Moved<float>(dense.q, 2, axis, store);
    moved.k = Moved<float>(dense.k, 2, axis, store);
    moved.v = Moved<float>(dense.v, 2, axis, store);
    ExpectSameBits(RunAny({}, moved, "decode"), want);
    moved = quantized;
    moved.k = Moved<int8_t>(quantized.k, 2, axis, store);
    moved.v = Moved<int8_t>(quantized.v, 2, axis, store);
    ExpectSameBits(RunAny(with_scales, moved, "decode"), want_quantized);
  }
}

TEST(DecodeTest, EveryLayoutOfBFloat16GivesTheSameBits) {
  TensorStore store;
  AttentionArgs dense = Call(store);
  for (TensorView* tensor : {&dense.q, &dense.k, &dense.v}) {
    std::vector<uint16_t> narrow;
    const auto* from = reinterpret_cast<const float*>(tensor->data);
    for (int64_t i = 0; i < tensor->shape.element_count(); ++i) {
      narrow.push_back(ToBF16(from[i]));
    }
    *tensor = store.Put(DType::kBF16, tensor->shape, narrow);
  }
  AttentionSpec without_scale;
  without_scale.score = DotScore{0.0, std::nullopt};
  for (const AttentionSpec& spec : {AttentionSpec{}, without_scale}) {
    ExpectReference(spec, dense);
    const AnyOutcome want = RunAny(spec, dense, "decode");
    for (const int axis : {1, 3}) {
      AttentionArgs moved = dense;
      moved.k = Moved<uint16_t>(dense.k, 2, axis, store);
      moved.v = Moved<uint16_t>(dense.v, 2, axis, store);
      ExpectSameBits(RunAny(spec, moved, "decode"), want);
    }
  }
}

TEST(DecodeTest, AScaleOfNaNBehindAMaskReachesNothing) {
  constexpr auto kPerToken = QuantizationGranularity::kPerToken;
  TensorStore store;
  AttentionArgs args = QuantizedCall(kPerToken, store);
  AttentionSpec spec;
  spec.kv_quantization = KvQuantization{kPerToken, 0, 1};
  std::vector<uint8_t> seen(kKeys, 1);
  for (const size_t key : {1U, 1000U, 4097U}) seen[key] = 0;
  args.inputs.push_back(store.Put(DType::kBool, {kKeys}, seen));
  spec.masks = {DenseMask{2}};
  const AnyOutcome want = RunAny(spec, args, "decode");
  for (const int which : {0, 1}) {
    std::vector<float> scales = Scales(kPerToken, which);
    for (size_t i = 0; i < scales.size(); ++i) {
      if (seen[i % static_cast<size_t>(kKeys)] == 0) scales[i] = kNaN;
    }
    args.inputs[static_cast<size_t>(which)] =
        store.Put(DType::kF32, ScaleShape(kPerToken), scales);
  }
  const AnyOutcome got = RunAny(spec, args, "decode");
  ExpectSameBits(got, want);
  EXPECT_EQ(got.report.nonfinite_outputs, 0);
  EXPECT_EQ(got.report.nonfinite_k, 3 * kPlanes * kDim);
  EXPECT_EQ(got.report.nonfinite_v, 3 * kPlanes * kVDim);
}

TEST(DecodeTest, AScaleOfNaNOfAllKeysIsCountedAsItsRows) {
  TensorStore store;
  AttentionArgs args =
      QuantizedCall(QuantizationGranularity::kPerTensor, store);
  AttentionSpec spec;
  spec.kv_quantization =
      KvQuantization{QuantizationGranularity::kPerTensor, 0, 1};
  args.inputs[1] = store.Put<float>(DType::kF32, {1}, {kNaN});
  const AnyOutcome got = RunAny(spec, args, "decode");
  EXPECT_EQ(got.report.nonfinite_k, 0);
  EXPECT_EQ(got.report.nonfinite_v, kPlanes * kKeys * kVDim);
  for (const double value : got.output) EXPECT_TRUE(std::isnan(value));
}

TEST(DecodeTest, LogitsThatF16CouldNotHoldAreCounted) {
  TensorStore store;
  AttentionArgs args = Call(store);
  for (TensorView* tensor : {&args.q, &args.k, &args.v}) {
    std::vector<uint16_t> halves;
    const auto* from = reinterpret_cast<const float*>(tensor->data);
    for (int64_t i = 0; i < tensor->shape.element_count(); ++i) {
      halves.push_back(ToF16(from[i] * (tensor == &args.v ? 1.0F : 150.0F)));
    }
    *tensor = store.Put(DType::kF16, tensor->shape, halves);
  }
  AttentionSpec spec;
  spec.masks = {CausalMask{Alignment::kBottomRight}};
  const AnyOutcome want = RunAny(spec, args, "rowwise");
  const AnyOutcome got = RunAny(spec, args, "decode");
  EXPECT_GT(want.report.f16_overflows, 0);
  EXPECT_EQ(got.report.f16_overflows, want.report.f16_overflows);
}

// A row of each sequence, or none, and their caches.
TEST(DecodeTest, RaggedSequencesHaveTheBitsTheyHaveAlone) {
  const std::vector<int64_t> queries = {0, 2, 2, 3, 5};
  const std::vector<int64_t> keys = {0, 4500, 4511, 4511, 5011};
  TensorStore store;
  AttentionArgs args;
  args.q_offsets = queries;
  args.kv_offsets = keys;
  args.q =
      store.Put(DType::kF32, {5, kQHeads, kDim}, Wave(5 * kQHeads * kDim, 1));
  args.k = store.Put(DType::kF32, {5011, kKvHeads, kDim},
                     Wave(5011 * kKvHeads * kDim, 2));
  args.v = store.Put(DType::kF32, {5011, kKvHeads, kVDim},
                     Wave(5011 * kKvHeads * kVDim, 3));
  AttentionSpec spec;
  spec.masks = {CausalMask{Alignment::kBottomRight}};
  const AnyOutcome together = RunAny(spec, args, "decode");
  const AnyOutcome reference = RunAny(spec, args, "reference");
  for (size_t i = 0; i < together.output.size(); ++i) {
    ASSERT_NEAR(together.output[i], reference.output[i], 4e-5) << i;
  }
  for (size_t b = 0; b + 1 < queries.size(); ++b) {
    const int64_t rows = queries[b + 1] - queries[b];
    AttentionArgs alone;
    const auto part = [](const TensorView& tensor, int64_t begin, int64_t end) {
      TensorView view = tensor;
      view.data += begin * tensor.strides[0] * int64_t{sizeof(float)};
      view.shape = {1, tensor.shape[1], end - begin, tensor.shape[2]};
      view.strides = {0, tensor.strides[1], tensor.strides[0],
                      tensor.strides[2]};
      return view;
    };
    alone.q = part(args.q, queries[b], queries[b + 1]);
    alone.k = part(args.k, keys[b], keys[b + 1]);
    alone.v = part(args.v, keys[b], keys[b + 1]);
    const AnyOutcome one = RunAny(spec, alone, "decode");
    for (int64_t h = 0; h < kQHeads; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t c = 0; c < kVDim; ++c) {
          const int64_t row = (queries[b] + i) * kQHeads + h;
          ASSERT_EQ(together.output[static_cast<size_t>(row * kVDim + c)],
                    one.output[static_cast<size_t>((h * rows + i) * kVDim + c)])
              << "sequence " << b << ", head " << h << ", row " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attn::testing
