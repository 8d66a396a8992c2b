#include "tests/client/examples/local_attention.h"

#include <cmath>

namespace attn {

std::vector<double> LocalAttention::Rotated(const std::vector<float>& rows,
                                            int64_t row, int64_t heads,
                                            int64_t position) const {
  const int64_t dim = sizes_.head_dim();
  std::vector<double> turned;
  for (int64_t i = 0; i < heads * dim; i += 2) {
    const double angle = static_cast<double>(position) *
                         std::pow(10000.0, -static_cast<double>(i % dim) /
                                               static_cast<double>(dim));
    const auto at = static_cast<size_t>(row * heads * dim + i);
    const double a = rows[at];
    const double b = rows[at + 1];
    turned.push_back(a * std::cos(angle) - b * std::sin(angle));
    turned.push_back(a * std::sin(angle) + b * std::cos(angle));
  }
  return turned;
}

std::vector<double> LocalAttention::Mix(const double* q, const Cache& cache,
                                        int64_t kv_head, int64_t keys) const {
  const int64_t dim = sizes_.head_dim();
  std::vector<double> mixed(static_cast<size_t>(dim));
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t at = (j * sizes_.kv_heads + kv_head) * dim;
    double score = 0;
    for (int64_t d = 0; d < dim; ++d) {
      score += q[d] * cache.k[static_cast<size_t>(at + d)];
    }
    const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
    sum += weight;
    for (int64_t d = 0; d < dim; ++d) {
      mixed[static_cast<size_t>(d)] +=
          weight * cache.v[static_cast<size_t>(at + d)];
    }
  }
  for (double& value : mixed) value /= sum;
  return mixed;
}

std::vector<float> LocalAttention::Attend(const LlamaRows& rows) {
  Cache& cache = layers_[static_cast<size_t>(rows.layer)];
  const int64_t dim = sizes_.head_dim();
  const auto before = static_cast<int64_t>(cache.v.size()) / sizes_.kv_dim();
  std::vector<float> output;
  for (int64_t i = 0; i < rows.tokens; ++i) {
    const auto k = Rotated(rows.k, i, sizes_.kv_heads, before + i);
    cache.k.insert(cache.k.end(), k.begin(), k.end());
    const auto v = rows.v.begin() + i * sizes_.kv_dim();
    cache.v.insert(cache.v.end(), v, v + sizes_.kv_dim());
    const auto q = Rotated(rows.q, i, sizes_.heads, before + i);
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      const int64_t kv_head = h / (sizes_.heads / sizes_.kv_heads);
      for (const double seen :
           Mix(q.data() + h * dim, cache, kv_head, before + i + 1)) {
        output.push_back(static_cast<float>(seen));
      }
    }
  }
  return output;
}

}  // namespace attn
