#include "engine/kernels/score_views.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/head_rows.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

template <typename T>
constexpr T kExcluded = -std::numeric_limits<T>::infinity();

// Keys of the tile whose gradients are needed, from its first one on.
KeyRange NeededKeys(const GradientViewCall& call, const TileBounds& bounds) {
  // The sum that dropout divides by runs over all keys.
  if (call.dropout.renormalizes()) return {0, bounds.keys};
  const AxisRange& window = call.kernel_call.outputs.window.key;
  const int64_t end = bounds.key_begin + bounds.keys;
  return {std::clamp(window.begin, bounds.key_begin, end) - bounds.key_begin,
          std::clamp(window.end, bounds.key_begin, end) - bounds.key_begin};
}

// The way by the sum: w_j = kept_j / S has d w_j / d kept_i = -w_j / S.
template <typename T>
void AddWayOfSum(const DescribedTile<T>& tile, const Tile<T>& view) {
  for (int64_t r = 0; r < view.bounds.rows; ++r) {
    T* row = view.Row(r);
    double sum = 0;
    for (int64_t j = 0; j < view.bounds.keys; ++j) {
      sum += static_cast<double>(row[j]);
    }
    for (int64_t j = 0; j < view.bounds.keys; ++j) {
      if (tile.logits.Row(r)[j] == kExcluded<T>) continue;
      row[j] -=
          static_cast<T>(static_cast<double>(tile.weights.Row(r)[j]) * sum);
    }
  }
}

bool WantsEveryRow(const KernelCall& call) {
  const OutputSelection& wanted = call.problem->outputs;
  return wanted.output || wanted.head_output || wanted.statistics ||
         wanted.dropout_keep || call.outputs.lse.wanted() ||
         call.outputs.lse_with_sink.wanted();
}

}  // namespace

template <typename T>
void ViewContribution(const DescribedTile<T>& tile, const Tile<T>& view) {
  for (int64_t r = 0; r < view.bounds.rows; ++r) {
    const T* logits = tile.logits.Row(r);
    const T* weights = tile.weights.Row(r);
    T* row = view.Row(r);
    for (int64_t j = 0; j < view.bounds.keys; ++j) {
      const double weight = std::abs(static_cast<double>(weights[j]));
      row[j] = logits[j] == kExcluded<T>
                   ? T{0}
                   : static_cast<T>(weight * tile.norms[j]);
    }
  }
}

template <typename T>
void ViewGradientWeight(const GradientViewCall& call,
                        const DescribedTile<T>& tile, const Tile<T>& view) {
  const AttentionShape& shape = call.view.shape;
  const RowBlock& block = call.block;
  const int64_t width = shape.v_dim;
  double* cotangents = call.scratch;
  double* value = call.scratch + block.valid_rows * width;
  const AttentionArgs& args = call.view.args;
  const HeadRows of_output = {
      args.d_output,
      PlaceOf(args.d_output, args.q_offsets, block.batch, block.head)};
  of_output.Load(block.row_begin, block.valid_rows, cotangents);
  if (call.head_gate.on()) {
    for (int64_t r = 0; r < block.valid_rows; ++r) {
      ScaleRow(cotangents + r * width, width,
               call.head_gate.At(call.view, block, block.row_begin + r));
    }
  }
  const HeadRows values =
      ValueRows(call.kernel_call, block.batch, block.head / shape.group_size());
  const KeyRange keys = NeededKeys(call, view.bounds);
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    values.Load(view.bounds.key_begin + j, 1, value);
    for (int64_t r = 0; r < view.bounds.rows; ++r) {
      T& element = view.Row(r)[j];
      element = 0;
      if (tile.logits.Row(r)[j] == kExcluded<T>) continue;
      element = static_cast<T>(static_cast<double>(tile.weights.Row(r)[j]) *
                               Dot(cotangents + r * width, value, width));
    }
  }
  if (call.dropout.renormalizes()) AddWayOfSum(tile, view);
}

template void ViewContribution(const DescribedTile<float>&, const Tile<float>&);
template void ViewContribution(const DescribedTile<double>&,
                               const Tile<double>&);
template void ViewGradientWeight(const GradientViewCall&,
                                 const DescribedTile<float>&,
                                 const Tile<float>&);
template void ViewGradientWeight(const GradientViewCall&,
                                 const DescribedTile<double>&,
                                 const Tile<double>&);

bool IsAskedFor(const KernelCall& call, const RowBlock& block) {
  if (WantsEveryRow(call)) return true;
  const ScoreWindow& window = call.outputs.window;
  return window.batch.Holds(block.batch) && window.head.Holds(block.head) &&
         block.row_begin < window.query.end &&
         block.row_begin + block.rows > window.query.begin;
}

bool IsAskedFor(const KernelCall& call, const KeyChunk& chunk) {
  if (WantsEveryRow(call)) return true;
  const ScoreWindow& window = call.outputs.window;
  const int64_t group = call.problem->shape.group_size();
  const int64_t head = chunk.kv_head * group;
  return window.batch.Holds(chunk.batch) && head < window.head.end &&
         head + group > window.head.begin;
}

}  // namespace attn
