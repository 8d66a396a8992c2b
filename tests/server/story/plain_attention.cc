#include "tests/server/story/plain_attention.h"

#include <cmath>

namespace attn {
namespace {

constexpr double kRotaryBase = 10000;

// Views of one head: rows of `size` elements.
struct PlainHead {
  const double* rows;
  int64_t size;

  double at(int64_t row, int64_t column) const {
    return rows[row * size + column];
  }
};

void AttendHead(const PlainHead& q, const PlainHead& k, const float* v,
                int64_t tokens, float* output) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size));
  for (int64_t i = 0; i < tokens; ++i) {
    double sum = 0;
    std::vector<double> mixed(static_cast<size_t>(q.size));
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t c = 0; c < q.size; ++c) score += q.at(i, c) * k.at(j, c);
      const double weight = std::exp(score * scale);
      sum += weight;
      for (int64_t c = 0; c < q.size; ++c) {
        mixed[static_cast<size_t>(c)] += weight * double{v[j * q.size + c]};
      }
    }
    for (int64_t c = 0; c < q.size; ++c) {
      output[i * q.size + c] =
          static_cast<float>(mixed[static_cast<size_t>(c)] / sum);
    }
  }
}

}  // namespace

std::vector<double> RotatedPlainly(const std::vector<float>& x, int64_t tokens,
                                   int64_t head_dim) {
  std::vector<double> rotated(x.size());
  for (size_t at = 0; at < x.size(); at += 2) {
    const auto element = static_cast<int64_t>(at) % head_dim;
    const int64_t position = static_cast<int64_t>(at) / head_dim % tokens;
    const double angle =
        static_cast<double>(position) *
        std::pow(kRotaryBase,
                 -static_cast<double>(element) / static_cast<double>(head_dim));
    const double a = x[at];
    const double b = x[at + 1];
    rotated[at] = a * std::cos(angle) - b * std::sin(angle);
    rotated[at + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
  return rotated;
}

std::vector<float> AttendPlainly(const StoryQkv& qkv, const StoryShape& shape) {
  const int64_t head_dim = shape.head_dim();
  const int64_t head_size = qkv.tokens * head_dim;
  const std::vector<double> q = RotatedPlainly(qkv.q, qkv.tokens, head_dim);
  const std::vector<double> k = RotatedPlainly(qkv.k, qkv.tokens, head_dim);
  std::vector<float> output(qkv.q.size());
  for (int64_t head = 0; head < shape.heads; ++head) {
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    AttendHead({q.data() + head * head_size, head_dim},
               {k.data() + kv_head * head_size, head_dim},
               qkv.v.data() + kv_head * head_size, qkv.tokens,
               output.data() + head * head_size);
  }
  return output;
}

}  // namespace attn
