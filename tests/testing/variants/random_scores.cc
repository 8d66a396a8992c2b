#include <algorithm>

#include "tests/testing/variants/random_variant.h"

namespace attn::oracle {
namespace {

bool Chance(Random& random) { return Below(random, 2) == 0; }

// `shape`, with `heads` in front half of the time.
std::vector<int64_t> MaybeByHead(Random& random, int64_t heads,
                                 std::vector<int64_t> shape) {
  if (Chance(random)) shape.insert(shape.begin(), heads);
  return shape;
}

// Scores that project compare rows of two widths; and each pair of elements of
// theirs costs the formulas a product.
void FitProjection(AttentionShape& shape) {
  shape.k_dim = std::min<int64_t>(shape.k_dim, 33);
  shape.q_dim = shape.k_dim % 16 + 2;
}

Activation RandomActivation(Random& random) {
  return static_cast<Activation>(1 + Below(random, 5));
}

void AddDot(Random& random, VariantCase& call) {
  DotScore dot;
  if (Chance(random)) dot.scale = Chance(random) ? 0.3 : -0.2;
  if (Chance(random)) {
    dot.learned_scale = LearnedScale{
        call.Add(NormalParameter(
            random, {Chance(random) ? 1 : call.shape.q_heads}, 0.5)),
        {}};
    if (Chance(random)) dot.learned_scale->max_log_scale = 0.25;
  }
  call.spec.score = dot;
}

void AddBilinear(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  BilinearScore score;
  score.weight = call.Add(NormalParameter(
      random, MaybeByHead(random, s.q_heads, {s.q_dim, s.k_dim}), 0.2));
  if (Chance(random)) score.bias = 0.5;
  score.scale = 0.1;
  call.spec.score = score;
}

void AddAdditive(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  const int64_t hidden = 5;
  AdditiveScore score;
  score.activation = RandomActivation(random);
  score.query_weight = call.Add(NormalParameter(
      random, MaybeByHead(random, s.q_heads, {s.q_dim, hidden}), 0.2));
  score.key_weight = call.Add(NormalParameter(
      random, MaybeByHead(random, s.kv_heads, {s.k_dim, hidden}), 0.2));
  if (Chance(random)) {
    score.query_bias = call.Add(
        NormalParameter(random, MaybeByHead(random, s.q_heads, {hidden})));
  }
  score.v = call.Add(
      NormalParameter(random, MaybeByHead(random, s.q_heads, {hidden})));
  score.bias = 0.25;
  call.spec.score = score;
}

void AddConcat(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  ConcatScore score;
  score.activation = RandomActivation(random);
  score.weight = call.Add(NormalParameter(random, {s.q_dim + s.k_dim, 6}, 0.2));
  score.v = call.Add(NormalParameter(random, {6}));
  call.spec.score = score;
}

void AddTrilinear(Random& random, VariantCase& call) {
  TrilinearScore score;
  score.weight = call.Add(NormalParameter(random, {3 * call.shape.q_dim}, 0.2));
  score.bias = -0.5;
  call.spec.score = score;
}

void AddCosine(Random& random, VariantCase& call) {
  CosineScore score;
  if (Chance(random)) score.scale = 5;
  if (Chance(random)) {
    score.learned_scale = LearnedScale{
        call.Add(NormalParameter(random, {call.shape.q_heads})), 1.0};
  }
  call.spec.score = score;
}

void AddDistance(Random& random, VariantCase& call) {
  DistanceScore score;
  score.distance = static_cast<Distance>(1 + Below(random, 3));
  score.scale = 0.1;
  call.spec.score = score;
}

void AddRotary(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  RotaryTransform rotary;
  rotary.layout =
      Chance(random) ? RotaryLayout::kInterleaved : RotaryLayout::kHalfSplit;
  const int64_t width = std::min(s.q_dim, s.k_dim);
  rotary.rotary_dim = width / (Chance(random) ? 2 : 4) * 2;
  rotary.base = Chance(random) ? 10000 : 500;
  rotary.query_offset = Below(random, 9);
  rotary.key_offset = Below(random, 9);
  rotary.position_scale = Chance(random) ? 1 : 4;
  if (Chance(random)) {
    Parameter positions{DType::kI64, {s.batch, s.q_length}, {}, true};
    for (int64_t i = 0; i < s.batch * s.q_length; ++i) {
      positions.data.push_back(static_cast<double>(Below(random, 40)));
    }
    rotary.query_positions = call.Add(std::move(positions));
  }
  call.spec.transforms.emplace_back(rotary);
}

void AddNorm(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  NormTransform norm;
  norm.kind = Chance(random) ? NormKind::kL2 : NormKind::kRms;
  norm.target = static_cast<TransformTarget>(1 + Below(random, 3));
  if (Chance(random)) {
    norm.query_weight = call.Add(
        NormalParameter(random, MaybeByHead(random, s.q_heads, {s.q_dim})));
    norm.key_weight = call.Add(
        NormalParameter(random, MaybeByHead(random, s.kv_heads, {s.k_dim})));
  }
  call.spec.transforms.emplace_back(norm);
}

}  // namespace

std::vector<MemberGenerator> ScoreGenerators() {
  return {{"dot", AddDot},
          {"bilinear", AddBilinear, FitProjection},
          {"additive", AddAdditive, FitProjection},
          {"concat", AddConcat, FitProjection},
          {"trilinear", AddTrilinear},
          {"cosine", AddCosine},
          {"distance", AddDistance}};
}

std::vector<MemberGenerator> TransformGenerators() {
  return {{"rotary", AddRotary}, {"norm", AddNorm}};
}

}  // namespace attn::oracle
