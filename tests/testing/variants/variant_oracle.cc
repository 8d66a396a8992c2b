#include "tests/testing/variants/variant_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();
constexpr double kFar = std::numeric_limits<double>::infinity();

// Row `index` of rows of `width`.
Row RowAt(const std::vector<double>& data, int64_t index, int64_t width) {
  const auto begin = data.begin() + index * width;
  return {begin, begin + width};
}

// Every row of q or of k after the transforms.
std::vector<Row> TransformedRows(const VariantCase& call, Whose whose) {
  const AttentionShape& s = call.shape;
  const bool query = whose == Whose::kQuery;
  const int64_t heads = query ? s.q_heads : s.kv_heads;
  const int64_t length = query ? s.q_length : s.kv_length;
  std::vector<Row> rows;
  for (int64_t i = 0; i < s.batch * heads * length; ++i) {
    const Pair at{i / length / heads, i / length % heads, i % length,
                  i % length};
    rows.push_back(
        RowAt(query ? call.q : call.k, i, query ? s.q_dim : s.k_dim));
    for (const TransformSpec& spec : call.spec.transforms) {
      rows.back() = Transform(call, spec, whose, at, std::move(rows.back()));
    }
  }
  return rows;
}

// One query row on its way to the result.
class QueryRow {
 public:
  QueryRow(const VariantCase& call, const Pair& at, const std::vector<Row>& q,
           const std::vector<Row>& k)
      : call_(call), at_(at), q_(q), k_(k) {}

  void AppendTo(VariantResult& result) {
    Score(result);
    Weigh(result);
    Mix(result);
    result.margin.push_back(margin_);
  }

 private:
  int64_t QueryIndex() const {
    const AttentionShape& s = call_.shape;
    return (at_.batch * s.q_heads + at_.head) * s.q_length + at_.query;
  }
  int64_t KeyIndex(int64_t key) const {
    const AttentionShape& s = call_.shape;
    return (at_.batch * s.kv_heads + call_.KvHead(at_.head)) * s.kv_length +
           key;
  }

  void Score(VariantResult& result) {
    const bool exists = at_.query < call_.QLength(at_.batch);
    for (at_.key = 0; at_.key < call_.shape.kv_length; ++at_.key) {
      const double logit =
          exists && at_.key < call_.KvLength(at_.batch)
              ? oracle::Score(call_, at_, q_[static_cast<size_t>(QueryIndex())],
                              k_[static_cast<size_t>(KeyIndex(at_.key))])
              : 0;
      result.logits.push_back(logit);
      logits_.push_back(Visible(call_, at_) ? Final(logit) : kExcluded);
    }
    for (const SparsifierSpec& spec : call_.spec.sparsifiers) {
      margin_ = std::min(margin_, Sparsify(spec, logits_));
    }
    result.masked_logits.insert(result.masked_logits.end(), logits_.begin(),
                                logits_.end());
  }
  double Final(double logit) const {
    const AttentionSpec& spec = call_.spec;
    if (spec.softcap) logit = *spec.softcap * std::tanh(logit / *spec.softcap);
    for (const BiasSpec& bias : spec.biases) logit += Bias(call_, bias, at_);
    if (spec.score_program) {
      logit = RunProgram(call_, *spec.score_program, at_, logit);
    }
    if (spec.temperatures.empty()) return logit;
    const bool one = spec.temperatures.size() == 1;
    return logit / spec.temperatures[one ? 0 : static_cast<size_t>(at_.head)];
  }

  void Weigh(VariantResult& result) {
    const Row q = RowAt(call_.q, QueryIndex(), call_.shape.q_dim);
    Weights made = Normalize(call_, at_, q, logits_);
    margin_ = std::min(margin_, made.margin);
    const bool exists = at_.query < call_.QLength(at_.batch);
    result.lse.push_back(made.lse);
    result.lse_with_sink.push_back(exists ? made.lse_with_sink : kExcluded);
    weights_ = std::move(made.weights);
    if (call_.spec.weight_program) {
      for (at_.key = 0; at_.key < call_.shape.kv_length; ++at_.key) {
        double& weight = weights_[static_cast<size_t>(at_.key)];
        if (logits_[static_cast<size_t>(at_.key)] == kExcluded) continue;
        weight = RunProgram(call_, *call_.spec.weight_program, at_, weight);
      }
    }
    Describe(weights_, result);
    result.weights.insert(result.weights.end(), weights_.begin(),
                          weights_.end());
    if (call_.spec.dropout) Drop(*call_.spec.dropout);
  }
  // Of the weights as they are reported.
  void Describe(const Row& weights, VariantResult& result) const {
    double sum = 0;
    double peak = 0;
    for (const double w : weights) sum += std::abs(w);
    double entropy = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const double share = std::abs(weights[j]) / sum;
      if (share > 0) entropy -= share * std::log(share);
      peak = std::max(peak, weights[j]);
    }
    const auto visible = std::count_if(logits_.begin(), logits_.end(),
                                       [](double x) { return x != kExcluded; });
    result.entropy.push_back(sum > 0 ? entropy : 0);
    result.peak_weight.push_back(peak);
    result.visible_keys.push_back(visible);
  }
  bool Kept(const DropoutSpec& dropout) const {
    if (dropout.keep) {
      return ReadBroadcast(call_.inputs[*dropout.keep], at_) != 0;
    }
    const auto word = [](int64_t x) { return static_cast<uint32_t>(x); };
    const auto words = Philox(
        {word(at_.key / 4), word(at_.query), word(at_.head), word(at_.batch)},
        dropout.seed);
    return words[static_cast<size_t>(at_.key % 4)] >= dropout.p * 0x1p32;
  }
  void Drop(const DropoutSpec& dropout) {
    double sum = 0;
    double size = 0;
    for (at_.key = 0; at_.key < call_.shape.kv_length; ++at_.key) {
      double& weight = weights_[static_cast<size_t>(at_.key)];
      if (!Kept(dropout)) weight = 0;
      sum += weight;
      size += std::abs(weight);
    }
    double factor = 1 / (1 - dropout.p);
    if (dropout.renormalize) {
      factor = sum == 0 ? 0 : 1 / sum;
      // A sum that cancels has no digits.
      if (size > 0) margin_ = std::min(margin_, std::abs(sum));
    }
    for (double& weight : weights_) weight *= factor;
  }

  double Gate() const {
    if (!call_.spec.head_gate) return 1;
    const Parameter& gate = call_.inputs[*call_.spec.head_gate];
    if (gate.shape.size() == 1) return Read(gate, 0, {at_.head});
    return Read(gate, 0, {at_.batch, at_.head, at_.query});
  }
  void Mix(VariantResult& result) const {
    double mass = 0;
    for (int64_t c = 0; c < call_.shape.v_dim; ++c) {
      double sum = 0;
      double size = 0;
      for (int64_t key = 0; key < call_.shape.kv_length; ++key) {
        if (logits_[static_cast<size_t>(key)] == kExcluded) continue;
        const double term =
            weights_[static_cast<size_t>(key)] *
            call_.v[static_cast<size_t>(KeyIndex(key) * call_.shape.v_dim + c)];
        sum += term;
        size += std::abs(term);
      }
      result.output.push_back(sum * Gate());
      mass = std::max(mass, size * std::abs(Gate()));
    }
    result.mass.push_back(mass);
  }

  const VariantCase& call_;
  Pair at_;
  const std::vector<Row>& q_;
  const std::vector<Row>& k_;
  Row logits_;
  Row weights_;
  double margin_ = kFar;
};

VariantResult AttendLinear(const VariantCase& call, const std::vector<Row>& q,
                           const std::vector<Row>& k) {
  const AttentionShape& s = call.shape;
  VariantResult result;
  LinearResult linear = LinearAttention(call, q, k);
  result.output = std::move(linear.output);
  result.state = std::move(linear.state);
  const auto rows = static_cast<size_t>(s.batch * s.q_heads * s.q_length);
  result.margin.assign(rows, kFar);
  result.lse.assign(rows, kExcluded);
  for (size_t row = 0; row < rows; ++row) {
    double mass = 0;
    for (int64_t c = 0; c < s.v_dim; ++c) {
      double& x = result.output[row * static_cast<size_t>(s.v_dim) +
                                static_cast<size_t>(c)];
      if (call.spec.head_gate) {
        const Parameter& gate = call.inputs[*call.spec.head_gate];
        const auto of_head = static_cast<int64_t>(row) / s.q_length % s.q_heads;
        x *= gate.data[gate.shape.size() == 1 ? static_cast<size_t>(of_head)
                                              : row];
      }
      mass = std::max(mass, std::abs(x));
    }
    result.mass.push_back(mass);
  }
  return result;
}

}  // namespace

bool Visible(const VariantCase& call, const Pair& at) {
  if (at.query >= call.QLength(at.batch)) return false;
  if (at.key >= call.KvLength(at.batch)) return false;
  for (const MaskSpec& mask : call.spec.masks) {
    if (!Allows(call, mask, at)) return false;
  }
  return std::none_of(call.spec.biases.begin(), call.spec.biases.end(),
                      [&](const BiasSpec& bias) {
                        return std::holds_alternative<DenseBias>(bias) &&
                               Bias(call, bias, at) == kExcluded;
                      });
}

VariantResult AttendVariant(const VariantCase& call) {
  const AttentionShape& s = call.shape;
  const std::vector<Row> q = TransformedRows(call, Whose::kQuery);
  const std::vector<Row> k = TransformedRows(call, Whose::kKey);
  if (std::holds_alternative<LinearNormalizer>(call.spec.normalizer)) {
    return AttendLinear(call, q, k);
  }
  VariantResult result;
  for (int64_t i = 0; i < s.batch * s.q_heads * s.q_length; ++i) {
    QueryRow(call,
             {i / s.q_length / s.q_heads, i / s.q_length % s.q_heads,
              i % s.q_length, 0},
             q, k)
        .AppendTo(result);
  }
  return result;
}

}  // namespace attn::oracle
