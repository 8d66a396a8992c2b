#include <limits>

#include "tests/testing/variants/random_variant.h"

namespace attn::oracle {
namespace {

bool Chance(Random& random) { return Below(random, 2) == 0; }

// [B, Hq, Sq, Sk] with some extents 1 and leading ones left out.
std::vector<int64_t> BroadcastShape(Random& random, const AttentionShape& s) {
  const int64_t full[4] = {s.batch, s.q_heads, s.q_length, s.kv_length};
  std::vector<int64_t> shape;
  for (int64_t axis = Below(random, 4); axis < 4; ++axis) {
    shape.push_back(Below(random, 3) == 0 ? 1 : full[axis]);
  }
  return shape;
}

void AddDense(Random& random, VariantCase& call) {
  const std::vector<int64_t> shape = BroadcastShape(random, call.shape);
  Parameter bias = NormalParameter(random, shape);
  bias.by_batch = shape.size() == 4 && shape[0] == call.shape.batch;
  for (double& x : bias.data) {
    if (Below(random, 16) == 0) x = -std::numeric_limits<double>::infinity();
  }
  call.spec.biases.emplace_back(DenseBias{call.Add(std::move(bias))});
}

void AddAlibi(Random& random, VariantCase& call) {
  AlibiBias alibi;
  const bool given = Chance(random);
  for (int64_t h = 0; given && h < call.shape.q_heads; ++h) {
    alibi.slopes.push_back(0.125 * static_cast<double>(h + 1));
  }
  call.spec.biases.emplace_back(alibi);
}

void AddRelativeTable(Random& random, VariantCase& call) {
  const int64_t reach = 1 + Below(random, 12);
  const int64_t rows = Chance(random) ? 1 : call.shape.q_heads;
  call.spec.biases.emplace_back(RelativeTableBias{
      call.Add(NormalParameter(random, {rows, 2 * reach + 1}))});
}

void AddT5(Random& random, VariantCase& call) {
  T5Bias t5;
  t5.bidirectional = Chance(random);
  t5.max_distance = Chance(random) ? 16 : 128;
  const int64_t buckets = Chance(random) ? 8 : 32;
  if (buckets == 32) t5.max_distance = 128;
  t5.table = call.Add(NormalParameter(random, {buckets, call.shape.q_heads}));
  call.spec.biases.emplace_back(t5);
}

constexpr int64_t kWindow = 3;

void FitWindow(AttentionShape& shape) {
  shape.q_length = kWindow * (1 + shape.q_length % 5);
  shape.kv_length = shape.q_length;
}

void AddContinuousPosition(Random& random, VariantCase& call) {
  ContinuousPositionBias bias;
  bias.height = call.shape.q_length / kWindow;
  bias.width = kWindow;
  bias.hidden_weight = call.Add(NormalParameter(random, {2, 4}));
  bias.hidden_bias = call.Add(NormalParameter(random, {4}));
  bias.output_weight =
      call.Add(NormalParameter(random, {4, call.shape.q_heads}));
  call.spec.biases.emplace_back(bias);
}

void AddConstant(Random& random, VariantCase& call) {
  call.spec.biases.emplace_back(
      ConstantBias{call.Add(NormalParameter(random, {call.shape.q_heads}))});
}

void AddTopK(Random& random, VariantCase& call) {
  TopKSparsifier top;
  top.k = 1 + Below(random, 8);
  top.ties = Chance(random) ? TieRule::kLowestIndex : TieRule::kKeepAll;
  call.spec.sparsifiers.emplace_back(top);
}

void AddThreshold(Random& random, VariantCase& call) {
  ThresholdSparsifier threshold;
  if (Chance(random)) threshold.min_logit = -0.5;
  if (!threshold.min_logit || Chance(random)) threshold.below_max = 1.5;
  call.spec.sparsifiers.emplace_back(threshold);
}

void AddTopP(Random& random, VariantCase& call) {
  call.spec.sparsifiers.emplace_back(
      TopPSparsifier{Chance(random) ? 0.5 : 0.9});
}

}  // namespace

std::vector<MemberGenerator> BiasGenerators() {
  return {{"dense", AddDense},
          {"alibi", AddAlibi},
          {"relative_table", AddRelativeTable},
          {"t5", AddT5},
          {"continuous_position", AddContinuousPosition, FitWindow},
          {"constant", AddConstant}};
}

std::vector<MemberGenerator> SparsifierGenerators() {
  return {{"top_k", AddTopK}, {"threshold", AddThreshold}, {"top_p", AddTopP}};
}

}  // namespace attn::oracle
