#include <algorithm>
#include <cmath>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

double Feature(FeatureMap map, double x) {
  switch (map) {
    case FeatureMap::kIdentity:
      return x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kRelu:
      return std::max(x, 0.0);
    case FeatureMap::kExp:
      return std::exp(x);
  }
  return x;
}

// The state of one KV head. Thread-compatible.
class State {
 public:
  State(const VariantCase& call, const LinearNormalizer& linear, int64_t batch,
        int64_t head)
      : call_(call),
        linear_(linear),
        batch_(batch),
        head_(head),
        rows_(static_cast<size_t>(call.shape.k_dim),
              Row(static_cast<size_t>(call.shape.v_dim))),
        keys_(rows_.size()) {
    if (!linear.state) return;
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (size_t c = 0; c < rows_[i].size(); ++c) {
        rows_[i][c] = Read(
            call.inputs[*linear.state], 0,
            {batch, head, static_cast<int64_t>(i), static_cast<int64_t>(c)});
      }
    }
  }

  void Absorb(const Row& k, const Row& v, int64_t key) {
    Row features;
    for (const double x : k)
      features.push_back(Feature(linear_.feature_map, x));
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (double& x : rows_[i]) x *= std::exp(DecayOf(key, i));
      keys_[i] += features[i];
    }
    Row change = v;
    if (linear_.beta) {
      for (size_t c = 0; c < v.size(); ++c) {
        double held = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
          held += features[i] * rows_[i][c];
        }
        change[c] = BetaOf(key) * (v[c] - held);
      }
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (size_t c = 0; c < v.size(); ++c) {
        rows_[i][c] += features[i] * change[c];
      }
    }
  }

  Row Answer(const Row& q, double scale) const {
    Row output(static_cast<size_t>(call_.shape.v_dim));
    double divisor = linear_.eps;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const double feature = Feature(linear_.feature_map, q[i]);
      divisor += feature * keys_[i];
      for (size_t c = 0; c < output.size(); ++c) {
        output[c] += feature * rows_[i][c];
      }
    }
    for (double& x : output) {
      x = linear_.normalize ? (divisor == 0 ? 0 : x / divisor) : x * scale;
    }
    return output;
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  double DecayOf(int64_t key, size_t i) const {
    if (!linear_.decay) return 0;
    const Parameter& decay = call_.inputs[*linear_.decay];
    const int64_t d = call_.shape.k_dim;
    const bool each = decay.shape[2] == call_.shape.kv_heads * d;
    return Read(
        decay, 0,
        {batch_, key, each ? head_ * d + static_cast<int64_t>(i) : head_});
  }
  double BetaOf(int64_t key) const {
    const Parameter& beta = call_.inputs[*linear_.beta];
    return Read(beta, 0, {batch_, key, beta.shape[2] == 1 ? 0 : head_});
  }

  const VariantCase& call_;
  const LinearNormalizer& linear_;
  int64_t batch_;
  int64_t head_;
  std::vector<Row> rows_;
  Row keys_;
};

}  // namespace

LinearResult LinearAttention(const VariantCase& call, const std::vector<Row>& q,
                             const std::vector<Row>& k) {
  const AttentionShape& s = call.shape;
  const auto& linear = std::get<LinearNormalizer>(call.spec.normalizer);
  LinearResult result;
  const auto dv = static_cast<size_t>(s.v_dim);
  result.output.resize(static_cast<size_t>(s.batch * s.q_heads * s.q_length) *
                       dv);
  for (int64_t plane = 0; plane < s.batch * s.kv_heads; ++plane) {
    const int64_t b = plane / s.kv_heads;
    const int64_t kv_head = plane % s.kv_heads;
    State state(call, linear, b, kv_head);
    const auto absorb = [&](int64_t key) {
      if (key >= call.KvLength(b)) return;
      const auto row = static_cast<size_t>(plane * s.kv_length + key);
      const auto v = call.v.begin() + static_cast<int64_t>(row * dv);
      state.Absorb(k[row], Row(v, v + s.v_dim), key);
    };
    for (int64_t key = 0; linear.bidirectional && key < s.kv_length; ++key) {
      absorb(key);
    }
    for (int64_t i = 0; i < s.q_length; ++i) {
      if (!linear.bidirectional) absorb(i);
      if (i >= call.QLength(b)) continue;
      for (int64_t h = 0; h < s.q_heads; ++h) {
        if (call.KvHead(h) != kv_head) continue;
        const auto row =
            static_cast<size_t>((b * s.q_heads + h) * s.q_length + i);
        const Row answer = state.Answer(
            q[row], DotScale(call, std::get<DotScore>(call.spec.score), h));
        std::copy(answer.begin(), answer.end(),
                  result.output.begin() + static_cast<int64_t>(row * dv));
      }
    }
    for (const Row& row : state.rows()) {
      result.state.insert(result.state.end(), row.begin(), row.end());
    }
  }
  return result;
}

}  // namespace attn::oracle
