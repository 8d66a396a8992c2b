#include <algorithm>
#include <cmath>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

double Product(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kIdentity:
      return x;
  }
  return x;
}

double LearnedFactor(const VariantCase& call,
                     const std::optional<LearnedScale>& learned, int64_t head) {
  if (!learned) return 1;
  const Parameter& scales = call.inputs[learned->log_scale];
  double log_scale =
      scales.data[scales.shape[0] == 1 ? 0 : static_cast<size_t>(head)];
  if (learned->max_log_scale) {
    log_scale = std::min(log_scale, *learned->max_log_scale);
  }
  return std::exp(log_scale);
}

double Bilinear(const VariantCase& call, const BilinearScore& score,
                const Pair& at, const Row& q, const Row& k) {
  double sum = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t j = 0; j < k.size(); ++j) {
      sum += q[i] * k[j] *
             Read(call.inputs[score.weight], at.head,
                  {static_cast<int64_t>(i), static_cast<int64_t>(j)});
    }
  }
  return score.scale.value_or(1) * (sum + score.bias);
}

// Element a of x W, or of x itself.
double Projected(const VariantCase& call, const std::optional<uint32_t>& weight,
                 int64_t head, const Row& x, int64_t a) {
  if (!weight) return x[static_cast<size_t>(a)];
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum +=
        x[i] * Read(call.inputs[*weight], head, {static_cast<int64_t>(i), a});
  }
  return sum;
}

double Additive(const VariantCase& call, const AdditiveScore& score,
                const Pair& at, const Row& q, const Row& k) {
  const Parameter& v = call.inputs[score.v];
  double sum = score.bias;
  for (int64_t a = 0; a < v.shape.back(); ++a) {
    double x = Projected(call, score.query_weight, at.head, q, a) +
               Projected(call, score.key_weight, call.KvHead(at.head), k, a);
    if (score.query_bias)
      x += Read(call.inputs[*score.query_bias], at.head, {a});
    sum += Read(v, at.head, {a}) * Activate(score.activation, x);
  }
  return sum;
}

double Concat(const VariantCase& call, const ConcatScore& score, const Row& q,
              const Row& k) {
  Row both = q;
  both.insert(both.end(), k.begin(), k.end());
  const Parameter& v = call.inputs[score.v];
  double sum = 0;
  for (int64_t a = 0; a < v.shape[0]; ++a) {
    sum +=
        v.data[static_cast<size_t>(a)] *
        Activate(score.activation, Projected(call, score.weight, 0, both, a));
  }
  return sum;
}

double Trilinear(const VariantCase& call, const TrilinearScore& score,
                 const Row& q, const Row& k) {
  const std::vector<double>& w = call.inputs[score.weight].data;
  const size_t d = q.size();
  double sum = score.bias;
  for (size_t i = 0; i < d; ++i) {
    sum += w[i] * q[i] + w[d + i] * k[i] + w[2 * d + i] * q[i] * k[i];
  }
  return sum;
}

double DistanceOf(const DistanceScore& score, const Row& q, const Row& k) {
  double squares = 0;
  double absolute = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    squares += (q[i] - k[i]) * (q[i] - k[i]);
    absolute += std::abs(q[i] - k[i]);
  }
  if (score.distance == Distance::kL1) return absolute;
  return score.distance == Distance::kL2 ? std::sqrt(squares) : squares;
}

}  // namespace

double DotScale(const VariantCase& call, const DotScore& dot, int64_t head) {
  const auto d = static_cast<double>(call.shape.k_dim);
  return dot.scale.value_or(d == 0 ? 1 : 1 / std::sqrt(d)) *
         LearnedFactor(call, dot.learned_scale, head);
}

double Score(const VariantCase& call, const Pair& at, const Row& q,
             const Row& k) {
  return std::visit(
      Overloaded{
          [&](const DotScore& dot) {
            return DotScale(call, dot, at.head) * Product(q, k);
          },
          [&](const BilinearScore& score) {
            return Bilinear(call, score, at, q, k);
          },
          [&](const AdditiveScore& score) {
            return Additive(call, score, at, q, k);
          },
          [&](const ConcatScore& score) { return Concat(call, score, q, k); },
          [&](const TrilinearScore& score) {
            return Trilinear(call, score, q, k);
          },
          [&](const CosineScore& score) {
            const double norms = std::max(std::sqrt(Product(q, q)), score.eps) *
                                 std::max(std::sqrt(Product(k, k)), score.eps);
            return score.scale.value_or(1) *
                   LearnedFactor(call, score.learned_scale, at.head) *
                   Product(q, k) / norms;
          },
          [&](const DistanceScore& score) {
            return -score.scale.value_or(1) * DistanceOf(score, q, k);
          }},
      call.spec.score);
}

}  // namespace attn::oracle
