#include <cmath>

#include "tests/testing/variants/random_variant.h"

namespace attn::oracle {
namespace {

bool Chance(Random& random) { return Below(random, 2) == 0; }

Divisor RandomDivisor(Random& random) {
  return Chance(random) ? Divisor::kOne : Divisor::kVisibleKeys;
}

void AddSoftmax(Random& random, VariantCase& call) {
  SoftmaxNormalizer softmax;
  if (Chance(random)) {
    std::vector<int64_t> shape = {call.shape.q_heads};
    if (Chance(random)) shape.push_back(2);
    softmax.sink = call.Add(NormalParameter(random, shape));
  }
  call.spec.normalizer = softmax;
}

void AddSoftmaxPlus(Random& random, VariantCase& call) {
  call.spec.normalizer = SoftmaxPlusNormalizer{Chance(random) ? 1.0 : 0.3};
}

void AddSparsemax(Random& /*random*/, VariantCase& call) {
  call.spec.normalizer = SparsemaxNormalizer{};
}

void AddEntmax(Random& random, VariantCase& call) {
  EntmaxNormalizer entmax;
  if (Chance(random)) {
    Parameter alphas = NormalParameter(random, {call.shape.q_heads}, 0.5);
    for (double& alpha : alphas.data) {
      alpha = 1.25 + std::round(16 * std::abs(alpha)) / 16;
    }
    entmax.alphas = call.Add(std::move(alphas));
  } else if (Chance(random)) {
    entmax.alpha = Chance(random) ? 1.0 : 1.75;
  }
  call.spec.normalizer = entmax;
}

void AddSigmoid(Random& random, VariantCase& call) {
  call.spec.normalizer =
      SigmoidNormalizer{Chance(random) ? 0.0 : -2.0, RandomDivisor(random)};
}

void AddRelu(Random& random, VariantCase& call) {
  call.spec.normalizer =
      ReluNormalizer{Chance(random) ? 1.0 : 2.0, RandomDivisor(random)};
}

void AddDivisive(Random& random, VariantCase& call) {
  call.spec.normalizer = DivisiveNormalizer{Chance(random) ? 0.0 : 0.5};
}

void AddHard(Random& /*random*/, VariantCase& call) {
  call.spec.normalizer = HardNormalizer{};
}

void AddLocal(Random& random, VariantCase& call) {
  LocalNormalizer local;
  local.radius = Chance(random) ? 2.5 : 10;
  local.weight = call.Add(NormalParameter(random, {call.shape.q_dim, 3}, 0.3));
  local.v = call.Add(NormalParameter(random, {3}));
  call.spec.normalizer = local;
}

void AddIdentity(Random& /*random*/, VariantCase& call) {
  call.spec.normalizer = IdentityNormalizer{};
}

void FitSquare(AttentionShape& shape) { shape.kv_length = shape.q_length; }

// A decay below 1 for each key, and a step of the delta rule in (0, 1).
void AddGates(Random& random, VariantCase& call, LinearNormalizer& linear) {
  const AttentionShape& s = call.shape;
  if (linear.update_rule == UpdateRule::kGated ||
      linear.update_rule == UpdateRule::kGatedDelta) {
    Parameter decay = NormalParameter(
        random, {s.batch, s.kv_length,
                 Chance(random) ? s.kv_heads : s.kv_heads * s.k_dim});
    for (double& x : decay.data) x = -std::abs(x);
    decay.by_batch = true;
    linear.decay = call.Add(std::move(decay));
  }
  if (linear.update_rule == UpdateRule::kDelta ||
      linear.update_rule == UpdateRule::kGatedDelta) {
    Parameter beta = NormalParameter(
        random, {s.batch, s.kv_length, Chance(random) ? s.kv_heads : 1});
    // Small, as the keys' features are not of norm 1.
    const double size = 1.0 / static_cast<double>(16 * s.k_dim);
    for (double& x : beta.data) x = static_cast<float>(std::abs(x) * size);
    beta.by_batch = true;
    linear.beta = call.Add(std::move(beta));
  }
}

void AddLinear(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  LinearNormalizer linear;
  linear.feature_map = static_cast<FeatureMap>(1 + Below(random, 4));
  linear.update_rule = static_cast<UpdateRule>(1 + Below(random, 4));
  linear.bidirectional = Chance(random);
  linear.normalize = linear.update_rule == UpdateRule::kLinear &&
                     linear.feature_map != FeatureMap::kIdentity &&
                     Chance(random);
  AddGates(random, call, linear);
  if (!linear.normalize && Chance(random)) {
    Parameter state =
        NormalParameter(random, {s.batch, s.kv_heads, s.k_dim, s.v_dim}, 0.3);
    state.by_batch = true;
    linear.state = call.Add(std::move(state));
  }
  // It forms no scores: only a dot score's scale has a meaning.
  call.spec.score = DotScore{.scale = 0.5, .learned_scale = {}};
  call.spec.normalizer = linear;
}

}  // namespace

std::vector<MemberGenerator> NormalizerGenerators() {
  return {{"softmax", AddSoftmax},
          {"softmax_plus", AddSoftmaxPlus},
          {"sparsemax", AddSparsemax},
          {"entmax", AddEntmax},
          {"sigmoid", AddSigmoid},
          {"relu", AddRelu},
          {"divisive", AddDivisive},
          {"hard", AddHard},
          {"local", AddLocal},
          {"identity", AddIdentity},
          {"linear", AddLinear, FitSquare}};
}

}  // namespace attn::oracle
