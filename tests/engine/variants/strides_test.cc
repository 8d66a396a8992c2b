// Any strides: the same bits, and no copy where a matrix product can read.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/aligned_buffer.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_keys.h"
#include "gtest/gtest.h"
#include "tests/engine/variants/any_call.h"

namespace attn::testing {
namespace {

// Where element (b, h, s, d) of a tensor lies.
struct Layout {
  const char* name;
  // From one index of each axis to the next, of [B, H, S, D] with these
  // extents.
  absl::InlinedVector<int64_t, kMaxRank> (*strides)(const Shape& shape);
};

constexpr Layout kMatrices[] = {
    {"[B, S, H, D]",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       return {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1};
     }},
    {"padded rows",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       return {s[1] * s[2] * (s[3] + 3), s[2] * (s[3] + 3), s[3] + 3, 1};
     }},
    {"rows 1 KiB apart",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       return {s[1] * s[2] * 256, s[2] * 256, 256, 1};
     }},
    {"a third of [B, S, 3, H, D]",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       const int64_t row = 3 * s[1] * s[3];
       return {s[2] * row, s[3], row, 1};
     }},
};
constexpr Layout kScattered[] = {
    {"[B, H, D, S]",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       return {s[1] * s[2] * s[3], s[2] * s[3], 1, s[2]};
     }},
    {"every other element",
     [](const Shape& s) -> absl::InlinedVector<int64_t, kMaxRank> {
       return {2 * s[1] * s[2] * s[3], 2 * s[2] * s[3], 2 * s[3], 2};
     }},
};

// `dense` in another layout; what lies between is NaN.
TensorView Spread(const TensorView& dense, const Layout& layout,
                  TensorStore& store) {
  const Shape& s = dense.shape;
  const auto strides = layout.strides(s);
  int64_t last = 0;
  for (int axis = 0; axis < 4; ++axis) {
    last += (s[axis] - 1) * strides[static_cast<size_t>(axis)];
  }
  std::vector<float> memory(static_cast<size_t>(last + 1), std::nanf(""));
  const auto* from = reinterpret_cast<const float*>(dense.data);
  for (int64_t i = 0; i < s.element_count(); ++i) {
    const int64_t index[] = {i / (s[1] * s[2] * s[3]), i / (s[2] * s[3]) % s[1],
                             i / s[3] % s[2], i % s[3]};
    int64_t at = 0;
    for (size_t axis = 0; axis < 4; ++axis) at += index[axis] * strides[axis];
    memory[static_cast<size_t>(at)] = from[i];
  }
  TensorView view = store.Put(
      DType::kF32, Shape{static_cast<int64_t>(memory.size())}, memory);
  view.shape = s;
  view.strides = strides;
  return view;
}

AttentionArgs DenseCall(int64_t queries, int64_t keys, int64_t dim,
                        TensorStore& store) {
  AttentionArgs args;
  const auto put = [&](int64_t heads, int64_t length, double frequency) {
    const Shape shape = {2, heads, length, dim};
    return store.Put(DType::kF32, shape,
                     Wave(shape.element_count(), frequency));
  };
  args.q = put(4, queries, 1);
  args.k = put(4, keys, 2);
  args.v = put(4, keys, 3);
  return args;
}

void ExpectSameBits(const Layout& layout, const std::string& kernel) {
  AttentionSpec spec;
  spec.masks = {CausalMask{Alignment::kBottomRight}};
  for (const int64_t dim : {5, 64}) {
    for (const int64_t keys : {3, 70, 1100}) {
      SCOPED_TRACE(absl::StrCat(layout.name, ", ", keys, " keys of ", dim,
                                ", by ", kernel));
      TensorStore store;
      const AttentionArgs dense = DenseCall(67, keys, dim, store);
      AttentionArgs spread;
      spread.q = Spread(dense.q, layout, store);
      spread.k = Spread(dense.k, layout, store);
      spread.v = Spread(dense.v, layout, store);
      const AnyOutcome expected = RunAny(spec, dense, kernel);
      const AnyOutcome got = RunAny(spec, spread, kernel);
      EXPECT_EQ(BitsOf(got.output), BitsOf(expected.output));
      EXPECT_EQ(BitsOf(got.weights), BitsOf(expected.weights));
      EXPECT_EQ(BitsOf(got.lse), BitsOf(expected.lse));
    }
  }
}

TEST(StridesTest, EveryLayoutGivesTheBitsOfTheContiguousOne) {
  for (const Layout& layout : kMatrices) ExpectSameBits(layout, "rowwise");
  for (const Layout& layout : kScattered) ExpectSameBits(layout, "rowwise");
  ExpectSameBits(kMatrices[1], "reference");
  ExpectSameBits(kScattered[0], "reference");
}

// The rows of V that a product of `args` reads, with scratch that would show a
// copy. K is packed.
void ExpectRead(const AttentionArgs& args, bool in_place) {
  constexpr int64_t kChunkKeys = 512;
  const auto problem = MakeProblem({}, args, {}, DType::kF32, "");
  ASSERT_TRUE(problem.ok()) << problem.status();
  const Pipeline pipeline(*problem);
  const PreparedKeys keys(*problem, pipeline, kChunkKeys);
  AlignedBuffer call_scratch(keys.call_scratch_bytes());
  std::vector<float> scratch(static_cast<size_t>(keys.chunk_elements()));
  CallCounters counters;
  KernelCall call;
  call.problem = &*problem;
  call.args = &args;
  call.scratch = call_scratch.data();
  call.counters = &counters;
  for (int64_t job = 0; job < keys.chunks().count(); ++job) {
    keys.Prepare(call, job, scratch.data());
  }
  const KeyChunk part = {.batch = 1, .kv_head = 2, .key_begin = 7, .keys = 20};
  const auto address = [&part](const TensorView& tensor) {
    const auto& strides = tensor.strides;
    return reinterpret_cast<const float*>(tensor.data) +
           part.batch * strides[0] + part.kv_head * strides[1] +
           part.key_begin * strides[2];
  };
  const ConstMatrix v = keys.Values(call, part, scratch.data());
  EXPECT_EQ(v.data == address(args.v), in_place);
}

TEST(StridesTest, ValuesWithoutGapsBetweenElementsAreReadInPlace) {
  TensorStore store;
  const AttentionArgs dense = DenseCall(3, 70, 16, store);
  ExpectRead(dense, true);
  for (const Layout& layout : kMatrices) {
    SCOPED_TRACE(layout.name);
    AttentionArgs args = dense;
    args.k = Spread(dense.k, layout, store);
    args.v = Spread(dense.v, layout, store);
    ExpectRead(args, true);
  }
  for (const Layout& layout : {kScattered[0], kScattered[1]}) {
    SCOPED_TRACE(layout.name);
    AttentionArgs args = dense;
    args.k = Spread(dense.k, layout, store);
    args.v = Spread(dense.v, layout, store);
    ExpectRead(args, false);
  }
}

}  // namespace
}  // namespace attn::testing
