#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();
constexpr double kFar = std::numeric_limits<double>::infinity();

// ln of the sum of exp(x); -infinity for an empty sum.
double LogSum(const Row& row) {
  double max = kExcluded;
  for (const double x : row) max = std::max(max, x);
  if (max == kExcluded) return max;
  double sum = 0;
  for (const double x : row) sum += std::exp(x - max);
  return max + std::log(sum);
}

template <typename F>
Row EachVisible(const Row& logits, F function) {
  Row weights;
  for (const double x : logits) {
    weights.push_back(x == kExcluded ? 0 : function(x));
  }
  return weights;
}

double Count(const Row& logits) {
  return static_cast<double>(std::count_if(
      logits.begin(), logits.end(), [](double x) { return x != kExcluded; }));
}

double DivisorOf(Divisor divisor, const Row& logits) {
  return divisor == Divisor::kVisibleKeys ? Count(logits) : 1;
}

// With the logits of `sinks` in the sum.
Row Softmax(const Row& logits, const Row& sinks) {
  Row all = logits;
  all.insert(all.end(), sinks.begin(), sinks.end());
  const double lse = LogSum(all);
  return EachVisible(logits, [lse](double x) { return std::exp(x - lse); });
}

// p = max(0, (alpha - 1) x - tau)^(1 / (alpha - 1)); tau by bisection.
Row Entmax(const Row& logits, double alpha) {
  if (alpha == 1) return Softmax(logits, {});
  const double max = *std::max_element(logits.begin(), logits.end());
  const auto power = [&](double tau) {
    return EachVisible(logits, [&](double x) {
      const double base = (alpha - 1) * (x - max) - tau;
      return base > 0 ? std::pow(base, 1 / (alpha - 1)) : 0;
    });
  };
  double low = -1;
  double high = 0;
  for (int i = 0; i < 100; ++i) {
    const double tau = (low + high) / 2;
    double sum = 0;
    for (const double p : power(tau)) sum += p;
    (sum > 1 ? low : high) = tau;
  }
  return power((low + high) / 2);
}

double AlphaOf(const VariantCase& call, const EntmaxNormalizer& entmax,
               int64_t head) {
  if (entmax.alphas) return Read(call.inputs[*entmax.alphas], 0, {head});
  return entmax.alpha.value_or(1.5);
}

Row SinksOf(const VariantCase& call, const SoftmaxNormalizer& softmax,
            int64_t head) {
  if (!softmax.sink) return {};
  const Parameter& sinks = call.inputs[*softmax.sink];
  if (sinks.shape.size() == 1) return {Read(sinks, 0, {head})};
  Row row;
  for (int64_t i = 0; i < sinks.shape[1]; ++i) {
    row.push_back(Read(sinks, 0, {head, i}));
  }
  return row;
}

// Its weights, and how near its edge comes to a key.
double Local(const VariantCase& call, const LocalNormalizer& local,
             const Row& q, const Row& logits, Row& weights) {
  const Parameter& w = call.inputs[local.weight];
  double x = 0;
  for (int64_t a = 0; a < w.shape[1]; ++a) {
    double hidden = 0;
    for (int64_t i = 0; i < w.shape[0]; ++i) {
      hidden += q[static_cast<size_t>(i)] * Read(w, 0, {i, a});
    }
    x += Read(call.inputs[local.v], 0, {a}) * std::tanh(hidden);
  }
  const double centre = Count(logits) / (1 + std::exp(-x));
  weights = Softmax(logits, {});
  double margin = kFar;
  for (size_t j = 0; j < weights.size(); ++j) {
    const double distance = std::abs(static_cast<double>(j) - centre);
    margin = std::min(margin, std::abs(distance - local.radius));
    weights[j] *= distance > local.radius
                      ? 0
                      : std::exp(-2 * std::pow(distance / local.radius, 2));
  }
  return margin;
}

double Divisive(const DivisiveNormalizer& divisive, const Row& logits,
                Row& weights) {
  double sum = 0;
  double largest = 0;
  for (const double x : logits) {
    if (x == kExcluded) continue;
    if (x > 0) sum += x;
    largest = std::max(largest, x);
  }
  weights = EachVisible(
      logits, [&](double x) { return x > 0 ? x / (sum + divisive.eps) : 0; });
  // A sum of next to nothing has no digits.
  return largest;
}

double Hard(const Row& logits, Row& weights) {
  const auto top = std::max_element(logits.begin(), logits.end());
  weights.assign(logits.size(), 0);
  if (*top == kExcluded) return kFar;
  weights[static_cast<size_t>(top - logits.begin())] = 1;
  double margin = kFar;
  for (auto x = logits.begin(); x != logits.end(); ++x) {
    if (x != top) margin = std::min(margin, *top - *x);
  }
  return margin;
}

// Weights of a row that sees a key, and the margin.
double Weigh(const VariantCase& call, const Pair& at, const Row& q,
             const Row& logits, Row& weights) {
  const auto smooth = [&weights](Row made) {
    weights = std::move(made);
    return kFar;
  };
  return std::visit(
      Overloaded{
          [&](const SoftmaxNormalizer& softmax) {
            return smooth(Softmax(logits, SinksOf(call, softmax, at.head)));
          },
          [&](const SoftmaxPlusNormalizer& softmax) {
            return smooth(Softmax(logits, {std::log(softmax.n)}));
          },
          [&](const SparsemaxNormalizer&) { return smooth(Entmax(logits, 2)); },
          [&](const EntmaxNormalizer& entmax) {
            return smooth(Entmax(logits, AlphaOf(call, entmax, at.head)));
          },
          [&](const SigmoidNormalizer& sigmoid) {
            const double divisor = DivisorOf(sigmoid.divisor, logits);
            return smooth(EachVisible(logits, [&](double x) {
              return 1 / (1 + std::exp(-(x + sigmoid.bias))) / divisor;
            }));
          },
          [&](const ReluNormalizer& relu) {
            const double divisor = DivisorOf(relu.divisor, logits);
            return smooth(EachVisible(logits, [&](double x) {
              return x > 0 ? std::pow(x, relu.power) / divisor : 0;
            }));
          },
          [&](const DivisiveNormalizer& divisive) {
            return Divisive(divisive, logits, weights);
          },
          [&](const HardNormalizer&) { return Hard(logits, weights); },
          [&](const LocalNormalizer& local) {
            return Local(call, local, q, logits, weights);
          },
          [&](const IdentityNormalizer&) {
            return smooth(EachVisible(logits, [](double x) { return x; }));
          },
          [](const LinearNormalizer&) {
            ADD_FAILURE() << "linear attention has no rows of logits";
            return 0.0;
          }},
      call.spec.normalizer);
}

}  // namespace

Weights Normalize(const VariantCase& call, const Pair& at, const Row& q,
                  const Row& logits) {
  Weights result;
  result.lse = LogSum(logits);
  result.margin = kFar;
  if (result.lse == kExcluded) {
    result.weights.assign(logits.size(), 0);
  } else {
    result.margin = Weigh(call, at, q, logits, result.weights);
  }
  Row all = {result.lse};
  if (const auto* softmax =
          std::get_if<SoftmaxNormalizer>(&call.spec.normalizer)) {
    const Row sinks = SinksOf(call, *softmax, at.head);
    all.insert(all.end(), sinks.begin(), sinks.end());
  }
  if (const auto* softmax =
          std::get_if<SoftmaxPlusNormalizer>(&call.spec.normalizer)) {
    all.push_back(std::log(softmax->n));
  }
  result.lse_with_sink = LogSum(all);
  return result;
}

}  // namespace attn::oracle
