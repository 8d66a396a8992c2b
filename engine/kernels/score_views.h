// What weights do, for those who look inside a call: views of the scores that
// stand beside the weights.
#pragma once

#include "engine/core/call_view.h"
#include "engine/kernels/dropout.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/row_describer.h"
#include "engine/tile/tile.h"

namespace attn {

// view = |weight| * |v|, from reported weights; 0 for excluded keys. The view
// has the bounds of the tiles.
template <typename T>
void ViewContribution(const DescribedTile<T>& tile, const Tile<T>& view);

// What ViewGradientWeight() needs of a call.
struct GradientViewCall {
  const CallView& view;
  const RowBlock& block;
  const KernelCall& kernel_call;
  const Dropout& dropout;
  const HeadGate& head_gate;
  // [block.valid_rows + 1, d_v]
  double* scratch = nullptr;
};

// view = weight * d loss / d weight for the cotangent args.d_output: with
// tile.weights w as dropout left them, w * gate * <dO, v>, and if dropout
// renormalises also the part of w that comes by way of the sum. 0 for excluded
// keys, whose values do not matter. Keys outside of the window may be left out.
template <typename T>
void ViewGradientWeight(const GradientViewCall& call,
                        const DescribedTile<T>& tile, const Tile<T>& view);

// Whether a call asks for anything of these rows, or of these keys. One that
// wants neither its output nor the statistics of every row is asked for the
// scores in its window alone: rows of other heads, and other rows, may be left
// out, and then have empty statistics.
bool IsAskedFor(const KernelCall& call, const RowBlock& block);
bool IsAskedFor(const KernelCall& call, const KeyChunk& chunk);

}  // namespace attn
