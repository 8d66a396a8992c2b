#include "engine/kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "engine/kernels/block_writer.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/tile/convert.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

double Feature(FeatureMap map, double x) {
  switch (map) {
    case FeatureMap::kIdentity:
      return x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kRelu:
      return x > 0 ? x : 0;
    case FeatureMap::kExp:
      return std::exp(x);
  }
  return x;
}

class LinearExecution final : public Execution {
 public:
  explicit LinearExecution(const Problem& problem)
      : shape_(problem.shape),
        spec_(std::get<LinearNormalizer>(problem.spec.normalizer)),
        pipeline_(problem) {}

  int phase_count() const override { return 1; }
  int64_t job_count(int /*phase*/) const override {
    return shape_.batch * shape_.kv_heads;
  }
  size_t worker_scratch_bytes() const override {
    const auto padded = [](int64_t count) {
      return Arena::Padded(static_cast<size_t>(count) * sizeof(double));
    };
    return padded(shape_.k_dim * shape_.v_dim) + padded(shape_.q_dim) +
           2 * padded(shape_.k_dim) + 3 * padded(shape_.v_dim);
  }
  size_t call_scratch_bytes() const override { return 0; }
  void RunJob(const KernelCall& call, int phase, int64_t job,
              Arena& arena) const override;

 private:
  // One KV head on its way along the sequence.
  struct Head {
    const KernelCall& call;
    const CallView& view;
    int64_t batch = 0;
    int64_t kv_head = 0;
    double* state = nullptr;   // S [d_k, d_v]
    double* sum = nullptr;     // sum of phi(k), [d_k]
    double* q = nullptr;       // [d_q]
    double* k = nullptr;       // [d_k]
    double* v = nullptr;       // [d_v]
    double* change = nullptr;  // [d_v]
    double* output = nullptr;  // [d_v]
  };

  void LoadState(const Head& head) const;
  void StoreState(const Head& head) const;
  void Absorb(const Head& head, int64_t key) const;
  void Decay(const Head& head, int64_t key) const;
  void Answer(const Head& head, int64_t row) const;
  void AnswerHead(const Head& head, int64_t q_head, int64_t row) const;
  double ReadBeta(const Head& head, int64_t key) const;

  AttentionShape shape_;
  LinearNormalizer spec_;
  Pipeline pipeline_;
};

void LinearExecution::RunJob(const KernelCall& call, int /*phase*/, int64_t job,
                             Arena& arena) const {
  const CallView view{shape_, *call.args};
  const auto take = [&arena](int64_t count) {
    return arena.Allocate<double>(static_cast<size_t>(count));
  };
  const Head head{call,
                  view,
                  job / shape_.kv_heads,
                  job % shape_.kv_heads,
                  take(shape_.k_dim * shape_.v_dim),
                  take(shape_.k_dim),
                  take(shape_.q_dim),
                  take(shape_.k_dim),
                  take(shape_.v_dim),
                  take(shape_.v_dim),
                  take(shape_.v_dim)};
  LoadState(head);
  const int64_t keys = view.kv_length(head.batch);
  if (spec_.bidirectional) {
    for (int64_t key = 0; key < keys; ++key) Absorb(head, key);
    for (int64_t row = 0; row < shape_.q_length; ++row) Answer(head, row);
  } else {
    for (int64_t row = 0; row < shape_.q_length; ++row) {
      if (row < keys) Absorb(head, row);
      Answer(head, row);
    }
  }
  StoreState(head);
}

void LinearExecution::LoadState(const Head& head) const {
  const int64_t count = shape_.k_dim * shape_.v_dim;
  std::fill_n(head.sum, shape_.k_dim, 0.0);
  if (!spec_.state.has_value()) {
    std::fill_n(head.state, count, 0.0);
    return;
  }
  const int64_t plane = head.batch * shape_.kv_heads + head.kv_head;
  ParameterView(head.view.args.inputs[*spec_.state])
      .Load(plane * count, count, head.state);
}

void LinearExecution::StoreState(const Head& head) const {
  const MutableTensorView& state = head.call.outputs.state;
  if (!state.wanted()) return;
  const int64_t count = shape_.k_dim * shape_.v_dim;
  const int64_t plane = head.batch * shape_.kv_heads + head.kv_head;
  StoreElements(
      head.state, count, state.dtype,
      state.data + plane * count * static_cast<int64_t>(SizeOf(state.dtype)));
}

// S = diag(exp(decay)) S
void LinearExecution::Decay(const Head& head, int64_t key) const {
  if (!spec_.decay.has_value()) return;
  const ParameterView decay(head.view.args.inputs[*spec_.decay]);
  const bool by_head = decay.extent(2) != shape_.kv_heads * shape_.k_dim;
  const int64_t row = (head.batch * shape_.kv_length + key) * decay.extent(2);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    const int64_t element =
        by_head ? head.kv_head : head.kv_head * shape_.k_dim + i;
    const double factor = std::exp(decay.At(row + element));
    double* state = head.state + i * shape_.v_dim;
    for (int64_t c = 0; c < shape_.v_dim; ++c) state[c] *= factor;
  }
}

double LinearExecution::ReadBeta(const Head& head, int64_t key) const {
  const ParameterView beta(head.view.args.inputs[*spec_.beta]);
  const int64_t row = head.batch * shape_.kv_length + key;
  return beta.At(row * beta.extent(2) +
                 (beta.extent(2) == 1 ? 0 : head.kv_head));
}

// S = S + k v, or with a delta S + beta k (v - k S).
void LinearExecution::Absorb(const Head& head, int64_t key) const {
  const RowSpan span{head.batch, head.kv_head, key, 1};
  HeadRows(head.view.args.k, head.batch, head.kv_head).Load(key, 1, head.k);
  HeadRows(head.view.args.v, head.batch, head.kv_head).Load(key, 1, head.v);
  head.call.counters->nonfinite_k.fetch_add(
      CountNonFinite(head.k, shape_.k_dim), std::memory_order_relaxed);
  head.call.counters->nonfinite_v.fetch_add(
      CountNonFinite(head.v, shape_.v_dim), std::memory_order_relaxed);
  pipeline_.Prepare(head.view, Side::kKey, span, head.k, head.k);
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    head.k[i] = Feature(spec_.feature_map, head.k[i]);
    head.sum[i] += head.k[i];
  }
  Decay(head, key);
  std::copy_n(head.v, shape_.v_dim, head.change);
  if (spec_.beta.has_value()) {
    for (int64_t i = 0; i < shape_.k_dim; ++i) {
      const double* state = head.state + i * shape_.v_dim;
      for (int64_t c = 0; c < shape_.v_dim; ++c) {
        head.change[c] -= head.k[i] * state[c];
      }
    }
    ScaleRow(head.change, shape_.v_dim, ReadBeta(head, key));
  }
  for (int64_t i = 0; i < shape_.k_dim; ++i) {
    double* state = head.state + i * shape_.v_dim;
    for (int64_t c = 0; c < shape_.v_dim; ++c) {
      state[c] += head.k[i] * head.change[c];
    }
  }
}

void LinearExecution::Answer(const Head& head, int64_t row) const {
  const int64_t group = shape_.group_size();
  for (int64_t g = 0; g < group; ++g) {
    AnswerHead(head, head.kv_head * group + g, row);
  }
}

// out = scale * phi(q) S, over phi(q) . sum + eps if normalised.
void LinearExecution::AnswerHead(const Head& head, int64_t q_head,
                                 int64_t row) const {
  const int64_t length = head.view.q_length(head.batch);
  const RowBlock block{head.batch, q_head, row, 1, row < length ? 1 : 0};
  const BlockWriter<double> writer(head.call, block);
  *writer.statistics() = RowStatistics{};
  std::fill_n(head.output, shape_.v_dim, 0.0);
  if (block.valid_rows > 0) {
    const RowSpan span{head.batch, q_head, row, 1};
    HeadRows(head.view.args.q, head.batch, q_head).Load(row, 1, head.q);
    head.call.counters->nonfinite_q.fetch_add(
        CountNonFinite(head.q, shape_.q_dim), std::memory_order_relaxed);
    pipeline_.Prepare(head.view, Side::kQuery, span, head.q, head.q);
    double divisor = spec_.normalize ? spec_.eps : 1;
    for (int64_t i = 0; i < shape_.k_dim; ++i) {
      const double q = Feature(spec_.feature_map, head.q[i]);
      if (spec_.normalize) divisor += q * head.sum[i];
      const double* state = head.state + i * shape_.v_dim;
      for (int64_t c = 0; c < shape_.v_dim; ++c) {
        head.output[c] += q * state[c];
      }
    }
    const double scale =
        spec_.normalize ? 1 : pipeline_.score().scale(head.view, q_head);
    // No key was seen: nothing to divide.
    const double factor = divisor == 0 ? 0 : scale / divisor;
    ScaleRow(head.output, shape_.v_dim, factor);
    const int64_t keys = head.view.kv_length(head.batch);
    writer.statistics()->visible_keys =
        spec_.bidirectional ? keys : std::min(row + 1, keys);
  }
  writer.Lse();
  pipeline_.head_gate().Apply(head.view, block, head.output);
  writer.Output(head.output);
}

class Linear final : public Kernel {
 public:
  const char* name() const override { return "linear"; }
  std::string WhyNot(const Problem& problem) const override {
    return std::holds_alternative<LinearNormalizer>(problem.spec.normalizer)
               ? ""
               : "the normalizer is not linear attention";
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return std::make_unique<LinearExecution>(problem);
  }
};

}  // namespace

const Kernel& LinearKernel() {
  static const Linear kKernel;
  return kKernel;
}

}  // namespace attn
