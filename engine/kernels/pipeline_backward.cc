// The pipeline's stages with what they take kept, and the way back over them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/copy_tile.h"
#include "engine/kernels/pipeline.h"

namespace attn {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// An excluded key has no gradient, whatever came before.
void ZeroExcluded(const Tile<double>& logits, const Tile<double>& gradient) {
  for (int64_t r = 0; r < logits.bounds.rows; ++r) {
    const double* x = logits.Row(r);
    double* g = gradient.Row(r);
    for (int64_t j = 0; j < logits.bounds.keys; ++j) {
      if (x[j] == kExcluded) g[j] = 0;
    }
  }
}

int64_t WidthOf(const CallView& call, Side side) {
  return side == Side::kQuery ? call.shape.q_dim : call.shape.k_dim;
}

}  // namespace

int64_t Pipeline::kept_stages(Side side) const {
  return 1 + std::count_if(
                 transforms_.begin(), transforms_.end(),
                 [side](const auto& stage) { return stage->Applies(side); });
}

const double* Pipeline::PrepareAndKeep(const CallView& call, Side side,
                                       const RowsRecord& record) const {
  const int64_t plane = record.span.count * WidthOf(call, side);
  double* rows = record.kept;
  for (const auto& transform : transforms_) {
    if (!transform->Applies(side)) continue;
    std::copy_n(rows, plane, rows + plane);
    rows += plane;
    transform->Apply(call, side, record.span, rows);
  }
  if (!score_->prepares()) return rows;
  if (side == Side::kQuery) {
    score_->PrepareQueries(call, record.span, rows, record.prepared);
  } else {
    score_->PrepareKeys(call, record.span, rows, record.prepared);
  }
  return record.prepared;
}

void Pipeline::PrepareBackward(const CallView& call, Side side,
                               const RowsRecord& record,
                               const RowsGradient& gradient,
                               const GradientSink& sink) const {
  const int64_t plane = record.span.count * WidthOf(call, side);
  const double* rows = record.kept + (kept_stages(side) - 1) * plane;
  const PreparedGradient prepared{rows, gradient.compared, gradient.rows};
  if (!score_->prepares()) {
    std::copy_n(gradient.compared, plane, gradient.rows);
  } else if (side == Side::kQuery) {
    score_->QueriesBackward(call, record.span, prepared, sink);
  } else {
    score_->KeysBackward(call, record.span, prepared, sink);
  }
  for (auto i = transforms_.rbegin(); i != transforms_.rend(); ++i) {
    if (!(*i)->Applies(side)) continue;
    rows -= plane;
    (*i)->Backward(call, side, record.span, rows, gradient.rows, sink);
  }
}

void Pipeline::FinishAndKeep(const CallView& call, const TileRecord& record,
                             RowStatistics* statistics, double* scratch) const {
  CopyTile(record.scores, record.logits);
  CapAndBias(call, record.logits);
  if (score_program_ != nullptr) {
    CopyTile(record.logits, record.biased);
    score_program_->Run(call, record.logits, record.logits);
  }
  MaskAndSparsify(call, record.logits, scratch);
  CopyTile(record.logits, record.weights);
  normalizer_->Normalize(call, record.weights, statistics);
  if (weight_program_ != nullptr) {
    CopyTile(record.weights, record.changed);
    weight_program_->Run(call, record.changed, record.logits);
  }
  if (dropout_.on()) {
    CopyTile(record.changed, record.mixed);
    dropout_.Apply(call, record.mixed);
  }
}

void Pipeline::FinishBackward(const CallView& call, const TileRecord& record,
                              const TileGradient& gradient,
                              const GradientSink& sink,
                              StageGradients* stages) const {
  const Tile<double>& tile = gradient.tile;
  dropout_.Backward(call, record.changed, record.mixed, tile);
  ZeroExcluded(record.logits, tile);
  if (weight_program_ != nullptr) {
    weight_program_->Backward(call, record.weights, record.logits, tile, sink);
  }
  const NormalizedTile forward{record.logits, record.weights, record.statistics,
                               gradient.lse};
  if (normalizer_->reads_queries()) {
    normalizer_->QueriesBackward(call, forward, tile, gradient.queries, sink);
  }
  normalizer_->Backward(call, forward, tile, sink);
  CoolBackward(record, tile, stages);
  if (score_program_ != nullptr) {
    score_program_->Backward(call, record.biased, record.biased, tile, sink);
  }
  BiasesBackward(call, tile, sink);
  CapBackward(record, tile, stages);
}

void Pipeline::BiasesBackward(const CallView& call,
                              const Tile<double>& gradient,
                              const GradientSink& sink) const {
  for (const auto& bias : biases_) bias->Backward(call, gradient, sink);
}

// y = x / t: dx = dy / t, dt = -sum y dy / t.
void Pipeline::CoolBackward(const TileRecord& record,
                            const Tile<double>& gradient,
                            StageGradients* stages) const {
  if (temperatures_.empty()) return;
  const double temperature = TemperatureOf(gradient.bounds.head);
  for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
    const double* y = record.logits.Row(r);
    double* g = gradient.Row(r);
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      if (g[j] == 0) continue;
      g[j] /= temperature;
      stages->temperature -= y[j] * g[j];
    }
  }
}

// y = c tanh(u) with u = x / c: dx = dy / cosh(u)^2,
// dc = sum dy (tanh(u) - u / cosh(u)^2).
void Pipeline::CapBackward(const TileRecord& record,
                           const Tile<double>& gradient,
                           StageGradients* stages) const {
  if (softcap_ <= 0) return;
  for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
    const double* x = record.scores.Row(r);
    double* g = gradient.Row(r);
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      if (g[j] == 0) continue;
      const double u = x[j] / softcap_;
      const double cosh = std::cosh(u);
      const double slope = 1 / (cosh * cosh);
      stages->softcap += g[j] * (std::tanh(u) - (slope == 0 ? 0 : u * slope));
      g[j] *= slope;
    }
  }
}

}  // namespace attn
