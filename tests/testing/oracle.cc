#include "tests/testing/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Position {
  int64_t batch;
  int64_t head;
  int64_t query;
  int64_t key;
};

// The element of a tensor that broadcasts to [B, Hq, Sq, Sk].
double At(const Tensor& tensor, const Position& p) {
  const int64_t full[4] = {p.batch, p.head, p.query, p.key};
  const size_t missing = 4 - tensor.shape.size();
  int64_t offset = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t extent = tensor.shape[axis];
    offset = offset * extent + (extent == 1 ? 0 : full[missing + axis]);
  }
  return tensor.data[static_cast<size_t>(offset)];
}

int64_t LengthOf(const std::vector<int64_t>& lengths, int64_t batch,
                 int64_t otherwise) {
  return lengths.empty() ? otherwise : lengths[static_cast<size_t>(batch)];
}

bool InBand(const Case& call, const Band& band, const Position& p) {
  const int64_t kv_length = LengthOf(call.kv_lengths, p.batch, call.kv_length);
  const int64_t position =
      p.query + (band.bottom_right ? kv_length - call.q_length : 0);
  if (band.left && p.key < position - *band.left) return false;
  return !band.right || p.key <= position + *band.right;
}

bool Visible(const Case& call, const Position& p) {
  if (p.query >= LengthOf(call.q_lengths, p.batch, call.q_length)) return false;
  if (p.key >= LengthOf(call.kv_lengths, p.batch, call.kv_length)) return false;
  for (const Band& band : call.bands) {
    if (!InBand(call, band, p)) return false;
  }
  for (const Tensor& mask : call.dense_masks) {
    if (At(mask, p) == 0) return false;
  }
  for (const Tensor& bias : call.dense_biases) {
    if (At(bias, p) == -kInfinity) return false;
  }
  return true;
}

const double* RowOf(const std::vector<double>& data, int64_t row,
                    int64_t width) {
  return data.data() + row * width;
}

int64_t KvRow(const Case& call, const Position& p) {
  const int64_t kv_head = p.head / (call.q_heads / call.kv_heads);
  return (p.batch * call.kv_heads + kv_head) * call.kv_length + p.key;
}

double RawLogit(const Case& call, const Position& p) {
  const double* q =
      RowOf(call.q, (p.batch * call.q_heads + p.head) * call.q_length + p.query,
            call.qk_dim);
  const double* k = RowOf(call.k, KvRow(call, p), call.qk_dim);
  double product = 0;
  for (int64_t c = 0; c < call.qk_dim; ++c) product += q[c] * k[c];
  // Without features every product is an empty sum.
  const double usual =
      call.qk_dim == 0 ? 1 : 1 / std::sqrt(static_cast<double>(call.qk_dim));
  return product * call.scale.value_or(usual);
}

double FinalLogit(const Case& call, const Position& p) {
  double logit = RawLogit(call, p);
  if (call.softcap) logit = *call.softcap * std::tanh(logit / *call.softcap);
  for (const Tensor& bias : call.dense_biases) logit += At(bias, p);
  for (const std::vector<double>& given : call.alibi_biases) {
    const std::vector<double> slopes =
        given.empty() ? PublishedSlopes(call.q_heads) : given;
    const int64_t distance = p.query + call.kv_length - call.q_length - p.key;
    logit -= slopes[static_cast<size_t>(p.head)] *
             static_cast<double>(std::abs(distance));
  }
  if (call.temperatures.empty()) return logit;
  const size_t index =
      call.temperatures.size() == 1 ? 0 : static_cast<size_t>(p.head);
  return logit / call.temperatures[index];
}

// One query row on its way to the result.
class Row {
 public:
  Row(const Case& call, Position start) : call_(call), at_(start) {}

  void AppendTo(Result& result) {
    Score(result);
    Normalize(result);
    Mix(result);
  }

 private:
  void Score(Result& result) {
    const int64_t queries =
        LengthOf(call_.q_lengths, at_.batch, call_.q_length);
    const int64_t keys = LengthOf(call_.kv_lengths, at_.batch, call_.kv_length);
    for (at_.key = 0; at_.key < call_.kv_length; ++at_.key) {
      const bool exists = at_.query < queries && at_.key < keys;
      result.logits.push_back(exists ? RawLogit(call_, at_) : 0);
      visible_.push_back(Visible(call_, at_));
      logits_.push_back(visible_.back() ? FinalLogit(call_, at_) : -kInfinity);
    }
    result.masked_logits.insert(result.masked_logits.end(), logits_.begin(),
                                logits_.end());
  }

  void Normalize(Result& result) {
    double max = -kInfinity;
    for (const double logit : logits_) max = std::fmax(max, logit);
    double sum = 0;
    for (size_t j = 0; j < logits_.size(); ++j) {
      weights_.push_back(visible_[j] ? std::exp(logits_[j] - max) : 0);
      sum += weights_.back();
    }
    double entropy = 0;
    double peak = 0;
    int64_t top = -1;
    for (size_t j = 0; j < weights_.size(); ++j) {
      if (!visible_[j]) continue;
      weights_[j] /= sum;
      if (weights_[j] > 0) entropy -= weights_[j] * std::log(weights_[j]);
      if (weights_[j] > peak) top = static_cast<int64_t>(j);
      peak = std::max(peak, weights_[j]);
    }
    result.weights.insert(result.weights.end(), weights_.begin(),
                          weights_.end());
    result.lse.push_back(sum == 0 ? -kInfinity : max + std::log(sum));
    result.entropy.push_back(entropy);
    result.peak_weight.push_back(peak);
    result.top_key.push_back(top);
    result.visible_keys.push_back(
        std::count(visible_.begin(), visible_.end(), true));
  }

  void Mix(Result& result) {
    for (int64_t c = 0; c < call_.v_dim; ++c) {
      double sum = 0;
      for (at_.key = 0; at_.key < call_.kv_length; ++at_.key) {
        const auto j = static_cast<size_t>(at_.key);
        if (!visible_[j]) continue;
        sum += weights_[j] * RowOf(call_.v, KvRow(call_, at_), call_.v_dim)[c];
      }
      result.output.push_back(sum);
    }
  }

  const Case& call_;
  Position at_;
  std::vector<bool> visible_;
  std::vector<double> logits_;
  std::vector<double> weights_;
};

}  // namespace

std::vector<double> PublishedSlopes(int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t h = 1; h <= power; ++h) {
    slopes.push_back(std::pow(
        2.0, -8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  // The rest are every other slope of twice as many heads.
  for (int64_t h = 1; static_cast<int64_t>(slopes.size()) < heads; h += 2) {
    slopes.push_back(std::pow(
        2.0, -8.0 * static_cast<double>(h) / static_cast<double>(2 * power)));
  }
  return slopes;
}

Result Attend(const Case& call) {
  Result result;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.q_heads; ++h) {
      for (int64_t i = 0; i < call.q_length; ++i) {
        Row(call, {b, h, i, 0}).AppendTo(result);
      }
    }
  }
  return result;
}

}  // namespace attn::oracle
