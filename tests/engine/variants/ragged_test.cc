// Ragged calls: sequences one after the other in one tensor.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/engine/variants/any_call.h"

namespace attn::testing {
namespace {

constexpr int64_t kQHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kDim = 8;
constexpr int64_t kVDim = 6;
constexpr int64_t kBuckets = 8;

// Queries and keys of each sequence; some see no key, some are no rows.
struct Sequence {
  int64_t queries;
  int64_t keys;
};
const std::vector<Sequence> kSequences = {{3, 11}, {0, 5}, {70, 70},
                                          {9, 4},  {2, 0}, {1, 600}};

std::vector<int64_t> Offsets(int64_t Sequence::*length) {
  std::vector<int64_t> offsets = {0};
  for (const Sequence& sequence : kSequences) {
    offsets.push_back(offsets.back() + sequence.*length);
  }
  return offsets;
}

class RaggedCall {
 public:
  RaggedCall() {
    args_.q_offsets = Offsets(&Sequence::queries);
    args_.kv_offsets = Offsets(&Sequence::keys);
    const int64_t rows = args_.q_offsets.back();
    const int64_t keys = args_.kv_offsets.back();
    q_ = Wave(rows * kQHeads * kDim, 1);
    k_ = Wave(keys * kKvHeads * kDim, 2);
    v_ = Wave(keys * kKvHeads * kVDim, 3);
    args_.q = store_.Put(DType::kF32, {rows, kQHeads, kDim}, q_);
    args_.k = store_.Put(DType::kF32, {keys, kKvHeads, kDim}, k_);
    args_.v = store_.Put(DType::kF32, {keys, kKvHeads, kVDim}, v_);
    args_.inputs = {store_.Put(DType::kF32, {kBuckets, kQHeads},
                               Wave(kBuckets * kQHeads, 4)),
                    store_.Put(DType::kF32, {kQHeads, 9}, Wave(9 * kQHeads, 5)),
                    store_.Put(DType::kF32, {kDim, 3}, Wave(3 * kDim, 6)),
                    store_.Put(DType::kF32, {3}, Wave(3, 7))};
  }

  AttentionArgs& args() { return args_; }
  TensorStore& store() { return store_; }
  // The sequence as a call of its own: a batch of one that is not ragged, which
  // views the same memory.
  AttentionArgs Alone(size_t b) const {
    AttentionArgs alone;
    const auto part = [b](const TensorView& rows,
                          const std::vector<int64_t>& offsets) {
      const int64_t begin = offsets[b];
      TensorView view = rows;
      view.data += begin * rows.strides[0] * int64_t{sizeof(float)};
      view.shape = {1, rows.shape[1], offsets[b + 1] - begin, rows.shape[2]};
      view.strides = {0, rows.strides[1], rows.strides[0], rows.strides[2]};
      return view;
    };
    alone.q = part(args_.q, args_.q_offsets);
    alone.k = part(args_.k, args_.kv_offsets);
    alone.v = part(args_.v, args_.kv_offsets);
    alone.inputs = args_.inputs;
    return alone;
  }

 private:
  TensorStore store_;
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  AttentionArgs args_;
};

struct Variant {
  std::string name;
  AttentionSpec spec;
};

std::vector<Variant> Positional() {
  std::vector<Variant> all(9);
  for (Variant& variant : all) {
    variant.spec.masks = {CausalMask{Alignment::kBottomRight}};
  }
  all[0].name = "causal, bottom right";
  all[1].name = "causal, top left";
  all[1].spec.masks = {CausalMask{Alignment::kTopLeft}};
  all[2].name = "window";
  all[2].spec.masks = {WindowMask{3, 2, Alignment::kBottomRight}};
  all[3].name = "alibi";
  all[3].spec.biases = {AlibiBias{}};
  all[4].name = "t5";
  all[4].spec.biases = {T5Bias{.table = 0}};
  all[5].name = "relative table";
  all[5].spec.biases = {RelativeTableBias{1}};
  all[6].name = "rotary";
  all[6].spec.transforms = {RotaryTransform{}};
  all[7].name = "score program";
  all[7].spec.score_program =
      ProgramSpec{"score + 0.1 * (p - k) + Sq / (1 + Sk) + q / (k + 1)", {}};
  all[8].name = "mask program";
  all[8].spec.masks = {ProgramMask{ProgramSpec{"k <= p && 2 * k < Sk", {}}}};
  return all;
}

std::vector<Variant> Rowwise() {
  std::vector<Variant> all(5);
  all[0].name = "plain";
  all[1].name = "sparsemax";
  all[1].spec.normalizer = SparsemaxNormalizer{};
  all[2].name = "local";
  all[2].spec.normalizer = LocalNormalizer{2, 3, 4};
  all[3].name = "top k";
  all[3].spec.sparsifiers = {TopKSparsifier{2}};
  all[4].name = "weight program";
  all[4].spec.weight_program = ProgramSpec{"weight * (1 + h) / Sk", {}};
  return all;
}

// A row of [B, Hq, longest, width] of a ragged call, or of [1, Hq, own, width].
std::vector<double> Rows(const std::vector<double>& values, int64_t first,
                         int64_t count) {
  const auto begin = values.begin() + first;
  return {begin, begin + count};
}

void ExpectEachAsAlone(const Variant& variant, const std::string& kernel) {
  SCOPED_TRACE(variant.name + " by " + kernel);
  RaggedCall call;
  const AnyOutcome together = RunAny(variant.spec, call.args(), kernel);
  ASSERT_FALSE(together.output.empty());
  const int64_t longest = 70;
  for (size_t b = 0; b < kSequences.size(); ++b) {
    const int64_t queries = kSequences[b].queries;
    const AnyOutcome alone = RunAny(variant.spec, call.Alone(b), kernel);
    for (int64_t h = 0; h < kQHeads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t row = call.args().q_offsets[b] + i;
        ASSERT_EQ(
            BitsOf(Rows(together.output, (row * kQHeads + h) * kVDim, kVDim)),
            BitsOf(Rows(alone.output, (h * queries + i) * kVDim, kVDim)))
            << "sequence " << b << ", head " << h << ", row " << i;
      }
      const int64_t plane = static_cast<int64_t>(b) * kQHeads + h;
      ASSERT_EQ(BitsOf(Rows(together.lse, plane * longest, queries)),
                BitsOf(Rows(alone.lse, h * queries, queries)));
    }
  }
}

TEST(RaggedTest, EachSequenceHasTheBitsItHasAlone) {
  for (const Variant& variant : Positional()) {
    ExpectEachAsAlone(variant, "rowwise");
    ExpectEachAsAlone(variant, "reference");
  }
  for (const Variant& variant : Rowwise()) {
    ExpectEachAsAlone(variant, "rowwise");
    ExpectEachAsAlone(variant, "reference");
  }
  AttentionSpec linear;
  LinearNormalizer whole_sums;
  whole_sums.bidirectional = true;
  linear.normalizer = whole_sums;
  ExpectEachAsAlone({"linear", linear}, "linear");
}

TEST(RaggedTest, OtherOutputsArePaddedToTheLongest) {
  RaggedCall call;
  const AnyOutcome got = RunAny({}, call.args(), "rowwise");
  const int64_t queries = 70;
  const int64_t keys = 600;
  ASSERT_EQ(got.lse.size(), kSequences.size() * kQHeads * queries);
  ASSERT_EQ(got.weights.size(), got.lse.size() * keys);
  for (size_t row = 0; row < got.lse.size(); ++row) {
    const Sequence& own = kSequences[row / (kQHeads * queries)];
    const auto i = static_cast<int64_t>(row % queries);
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double weight = got.weights[row * keys + static_cast<size_t>(j)];
      sum += weight;
      ASSERT_TRUE(weight == 0 || (i < own.queries && j < own.keys));
    }
    const bool empty = i >= own.queries || own.keys == 0;
    EXPECT_NEAR(sum, empty ? 0 : 1, 1e-5);
    EXPECT_EQ(std::isinf(got.lse[row]), empty);
  }
  // Rows of a sequence without keys; those beyond a sequence do not count.
  EXPECT_EQ(got.report.fully_masked_rows, 2 * kQHeads);
}

TEST(RaggedTest, NothingOfANeighbourIsRead) {
  const AttentionSpec spec;
  RaggedCall clean;
  const AnyOutcome expected = RunAny(spec, clean.args(), "rowwise");
  RaggedCall poisoned;
  // The keys and values of sequence 2.
  const std::vector<int64_t>& offsets = poisoned.args().kv_offsets;
  for (TensorView* tensor : {&poisoned.args().k, &poisoned.args().v}) {
    std::vector<float> values(reinterpret_cast<const float*>(tensor->data),
                              reinterpret_cast<const float*>(tensor->data) +
                                  tensor->shape.element_count());
    for (int64_t i = offsets[2] * tensor->strides[0];
         i < offsets[3] * tensor->strides[0]; ++i) {
      values[static_cast<size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    *tensor = poisoned.store().Put(DType::kF32, tensor->shape, values);
  }
  const AnyOutcome got = RunAny(spec, poisoned.args(), "rowwise");
  const int64_t row = kQHeads * kVDim;
  const std::vector<int64_t>& own = poisoned.args().q_offsets;
  EXPECT_EQ(BitsOf(Rows(got.output, 0, own[2] * row)),
            BitsOf(Rows(expected.output, 0, own[2] * row)));
  EXPECT_EQ(
      BitsOf(Rows(got.output, own[3] * row, (own.back() - own[3]) * row)),
      BitsOf(Rows(expected.output, own[3] * row, (own.back() - own[3]) * row)));
  EXPECT_EQ(got.report.nonfinite_outputs, 70 * kQHeads * kVDim);
}

struct Mistake {
  const char* field;
  void (*make)(AttentionArgs& args);
};

constexpr Mistake kMistakes[] = {
    {"q_offsets", [](AttentionArgs& a) { a.q_offsets.clear(); }},
    {"kv_offsets", [](AttentionArgs& a) { a.kv_offsets.clear(); }},
    {"kv_offsets", [](AttentionArgs& a) { a.kv_offsets.push_back(690); }},
    {"q_offsets[0]", [](AttentionArgs& a) { a.q_offsets[0] = 1; }},
    {"q_offsets[2]", [](AttentionArgs& a) { a.q_offsets[2] = 2; }},
    {"kv_offsets[3]", [](AttentionArgs& a) { a.kv_offsets[3] = 691; }},
    {"kv_offsets[6]", [](AttentionArgs& a) { a.kv_offsets[6] = 689; }},
    {"q_lengths", [](AttentionArgs& a) { a.q_lengths.assign(6, 0); }},
    {"kv_lengths", [](AttentionArgs& a) { a.kv_lengths.assign(6, 0); }},
    {"q.shape",
     [](AttentionArgs& a) {
       a.q.shape = {1, 85, 4, 8};
     }},
    {"v.shape",
     [](AttentionArgs& a) {
       a.v.shape = {689, 2, 6};
     }},
    {"v.shape",
     [](AttentionArgs& a) {
       a.v.shape = {690, 4, 6};
     }},
    {"k.shape",
     [](AttentionArgs& a) {
       a.k.shape = {690, 3, 8};
       a.v.shape = {690, 3, 6};
     }},
};

TEST(RaggedTest, AMistakeIsNamedByItsField) {
  for (const Mistake& mistake : kMistakes) {
    RaggedCall call;
    ASSERT_TRUE(CheckAny({}, call.args()).ok());
    mistake.make(call.args());
    const absl::Status status = CheckAny({}, call.args());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), mistake.field) << status;
  }
}

// The gradients themselves: tests/engine/gradients/ragged_test.cc.
TEST(RaggedTest, ACotangentOfAnotherShapeIsNamed) {
  RaggedCall call;
  Engine engine({.workers = 1});
  GradientSelection wanted;
  wanted.from_output = true;
  wanted.q = true;
  EXPECT_EQ(FieldOf(engine.PlanBackward({}, call.args(), {}, wanted).status()),
            "d_output.shape");
}

// It walks queries and keys side by side, and the longest lengths may agree
// where those of a sequence do not.
TEST(RaggedTest, CausalLinearAttentionNeedsEqualLengthsInEachSequence) {
  RaggedCall call;
  call.args().q_offsets = {0, 40, 85};
  call.args().kv_offsets = {0, 45, 690};
  AttentionSpec spec;
  spec.normalizer = LinearNormalizer{};
  EXPECT_EQ(FieldOf(CheckAny(spec, call.args())), "kv_offsets");
}

TEST(RaggedTest, CausalMasksMustNameTheirAlignment) {
  RaggedCall call;
  AttentionSpec spec;
  spec.masks = {CausalMask{}};
  EXPECT_EQ(FieldOf(CheckAny(spec, call.args())),
            "spec.masks[0].causal.alignment");
}

}  // namespace
}  // namespace attn::testing
