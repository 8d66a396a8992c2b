// Gradients of sequences one after the other in one tensor are those of each
// sequence by itself; gradients of what they share are the sum.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn::testing {
namespace {

constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kDim = 6;
constexpr int64_t kValue = 5;

std::vector<double> Random(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(draw(generator));
  return values;
}

TensorView View(const std::vector<double>& values, const Shape& shape,
                int64_t first_row = 0) {
  const int64_t row = shape.element_count() / std::max<int64_t>(shape[0], 1);
  return TensorView::Dense(values.data() + first_row * row, DType::kF64, shape);
}

MutableTensorView Room(std::vector<double>& values, const Shape& shape) {
  values.assign(static_cast<size_t>(shape.element_count()) + 1, -77);
  return MutableTensorView::Dense(values.data(), DType::kF64, shape);
}

struct Result {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<double> input;
  CallReport report;
};

// q_offsets and kv_offsets of three sequences, one of them without queries.
struct RaggedCall {
  std::vector<int64_t> q_offsets = {0, 3, 3, 8};
  std::vector<int64_t> kv_offsets = {0, 4, 6, 12};
  AttentionSpec spec;
  Shape input_shape = {kHeads};
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<double> d_output;
  std::vector<double> d_lse;
  std::vector<double> input;
  bool with_lse = true;

  void Fill() {
    q = Random(q_offsets.back() * kHeads * kDim, 1);
    k = Random(kv_offsets.back() * kKvHeads * kDim, 2);
    v = Random(kv_offsets.back() * kKvHeads * kValue, 3);
    d_output = Random(q_offsets.back() * kHeads * kValue, 4);
    input = Random(input_shape.element_count(), 5);
    d_lse = Random(3 * kHeads * LongestQuery(), 6);
  }
  int64_t LongestQuery() const {
    int64_t longest = 0;
    for (size_t b = 1; b < q_offsets.size(); ++b) {
      longest = std::max(longest, q_offsets[b] - q_offsets[b - 1]);
    }
    return longest;
  }

  // Sequences [first, last).
  Result GoBack(size_t first, size_t last, int workers = 1) const {
    AttentionArgs args;
    for (size_t b = first; b <= last; ++b) {
      args.q_offsets.push_back(q_offsets[b] - q_offsets[first]);
      args.kv_offsets.push_back(kv_offsets[b] - kv_offsets[first]);
    }
    const int64_t rows = args.q_offsets.back();
    const int64_t keys = args.kv_offsets.back();
    args.q = View(q, {rows, kHeads, kDim}, q_offsets[first]);
    args.k = View(k, {keys, kKvHeads, kDim}, kv_offsets[first]);
    args.v = View(v, {keys, kKvHeads, kValue}, kv_offsets[first]);
    args.inputs = {View(input, input_shape)};
    OutputGradients cotangents;
    cotangents.output =
        View(d_output, {rows, kHeads, kValue}, q_offsets[first]);
    int64_t longest = 0;
    for (size_t b = first; b < last; ++b) {
      longest = std::max(longest, q_offsets[b + 1] - q_offsets[b]);
    }
    cotangents.lse = TensorView::Dense(
        d_lse.data() + static_cast<int64_t>(first) * kHeads * LongestQuery(),
        DType::kF64,
        Shape{static_cast<int64_t>(last - first), kHeads, longest});
    cotangents.lse.strides = {kHeads * LongestQuery(), LongestQuery(), 1};
    if (!with_lse) cotangents.lse.data = nullptr;
    GradientSelection wanted;
    wanted.from_output = wanted.q = wanted.k = wanted.v = true;
    wanted.from_lse = with_lse;
    wanted.inputs = {0};
    Engine engine({.workers = workers});
    const auto plan = engine.PlanBackward(spec, args, cotangents, wanted);
    EXPECT_TRUE(plan.ok()) << plan.status();
    Result result;
    if (!plan.ok()) return result;
    InputGradients gradients;
    gradients.q = Room(result.q, args.q.shape);
    gradients.k = Room(result.k, args.k.shape);
    gradients.v = Room(result.v, args.v.shape);
    gradients.inputs = {Room(result.input, input_shape)};
    result.report = engine.RunBackward(*plan, args, cotangents, gradients);
    EXPECT_TRUE(result.report.status.ok()) << result.report.status;
    // Nothing is written beyond the last row.
    for (auto* values : {&result.q, &result.k, &result.v, &result.input}) {
      EXPECT_EQ(values->back(), -77);
      values->pop_back();
    }
    return result;
  }
};

void ExpectRows(const std::vector<double>& all, int64_t first,
                const std::vector<double>& alone) {
  const auto from = all.begin() + first;
  EXPECT_EQ(std::vector<double>(
                from, from + static_cast<std::ptrdiff_t>(alone.size())),
            alone);
}

void ExpectOneByOne(RaggedCall& call) {
  call.Fill();
  const Result all = call.GoBack(0, 3);
  std::vector<double> sum(all.input.size(), 0);
  double scale = 0;
  for (size_t b = 0; b < 3; ++b) {
    const Result alone = call.GoBack(b, b + 1);
    ExpectRows(all.q, call.q_offsets[b] * kHeads * kDim, alone.q);
    ExpectRows(all.k, call.kv_offsets[b] * kKvHeads * kDim, alone.k);
    ExpectRows(all.v, call.kv_offsets[b] * kKvHeads * kValue, alone.v);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += alone.input[i];
    scale += alone.report.scalar_gradients.scale;
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(all.input[i], sum[i], 1e-12);
  }
  EXPECT_NEAR(all.report.scalar_gradients.scale, scale, 1e-12);
  const Result again = call.GoBack(0, 3, 3);
  EXPECT_EQ(all.q, again.q);
  EXPECT_EQ(all.k, again.k);
  EXPECT_EQ(all.input, again.input);
}

TEST(RaggedGradients, AreThoseOfEachSequence) {
  RaggedCall call;
  call.spec.masks = {CausalMask{Alignment::kBottomRight}};
  call.spec.normalizer = SoftmaxNormalizer{.sink = 0};
  call.input_shape = {kHeads};
  ExpectOneByOne(call);
}

TEST(RaggedGradients, OfStagesWithPositionsAreThoseOfEachSequence) {
  RaggedCall call;
  call.spec.transforms = {RotaryTransform{}};
  call.spec.biases = {AlibiBias{}, RelativeTableBias{}};
  std::get<RelativeTableBias>(call.spec.biases[1]).table = 0;
  call.spec.masks = {WindowMask{2, 1, Alignment::kTopLeft}};
  call.spec.softcap = 2;
  call.input_shape = {kHeads, 5};
  ExpectOneByOne(call);
}

TEST(RaggedGradients, OfADenseBiasAreThoseOfEachSequence) {
  RaggedCall call;
  call.spec.normalizer = SparsemaxNormalizer{};
  call.spec.head_gate = 0;
  call.with_lse = false;
  ExpectOneByOne(call);
}

TEST(RaggedGradients, OfLinearAttentionAreThoseOfEachSequence) {
  for (const bool bidirectional : {false, true}) {
    RaggedCall call;
    LinearNormalizer linear;
    linear.bidirectional = bidirectional;
    call.spec.normalizer = linear;
    call.spec.head_gate = 0;
    call.with_lse = false;
    if (!bidirectional) call.kv_offsets = call.q_offsets;
    ExpectOneByOne(call);
  }
}

TEST(RaggedGradients, ASequenceIsAsAPaddedCallOfItsOwn) {
  RaggedCall call;
  call.spec.masks = {CausalMask{Alignment::kBottomRight}};
  call.spec.head_gate = 0;
  call.with_lse = false;
  call.Fill();
  const Result ragged = call.GoBack(2, 3);
  // [rows, heads, d] as [1, heads, rows, d].
  const auto padded = [](TensorView view) {
    TensorView result = view;
    result.shape = {1, view.shape[1], view.shape[0], view.shape[2]};
    result.strides = {0, view.strides[1], view.strides[0], 1};
    return result;
  };
  AttentionArgs args;
  args.q = padded(View(call.q, {5, kHeads, kDim}, 3));
  args.k = padded(View(call.k, {6, kKvHeads, kDim}, 6));
  args.v = padded(View(call.v, {6, kKvHeads, kValue}, 6));
  args.inputs = {View(call.input, call.input_shape)};
  OutputGradients cotangents;
  cotangents.output = padded(View(call.d_output, {5, kHeads, kValue}, 3));
  GradientSelection wanted;
  wanted.from_output = wanted.q = true;
  Engine engine({.workers = 1});
  const auto plan = engine.PlanBackward(call.spec, args, cotangents, wanted);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<double> q;
  InputGradients gradients;
  gradients.inputs.resize(1);
  gradients.q = Room(q, {5, kHeads, kDim});
  gradients.q.shape = args.q.shape;
  gradients.q.strides = {0, kDim, kHeads * kDim, 1};
  ASSERT_TRUE(
      engine.RunBackward(*plan, args, cotangents, gradients).status.ok());
  q.pop_back();
  EXPECT_EQ(q, ragged.q);
}

}  // namespace
}  // namespace attn::testing
