#include "engine/plan/cost.h"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/kernels/partition.h"
#include "engine/masks/mask.h"
#include "engine/scores/score.h"

namespace attn {
namespace {

// Rows that are looked at, so that planning takes no longer for a long call.
constexpr int64_t kSamples = 4096;

std::vector<std::unique_ptr<Mask>> MakeMasks(const Problem& problem) {
  std::vector<std::unique_ptr<Mask>> masks;
  for (const MaskSpec& spec : problem.spec.masks) {
    masks.push_back(MaskTable()[spec.index()].make(spec, problem));
  }
  return masks;
}

// Inputs of the problem's types and shapes, without data.
AttentionArgs ArgsWithoutData(const Problem& problem) {
  AttentionArgs args;
  for (const TensorSignature& input : problem.inputs) {
    args.inputs.push_back(TensorView::Dense(nullptr, input.dtype, input.shape));
  }
  return args;
}

int64_t VisibleOfRow(const std::vector<std::unique_ptr<Mask>>& masks,
                     const CallView& call, int64_t row) {
  KeyRange range{0, call.shape.kv_length};
  for (const auto& mask : masks) {
    const KeyRange seen = mask->Visible(call, {.row_begin = row, .rows = 1});
    range.begin = std::max(range.begin, seen.begin);
    range.end = std::min(range.end, seen.end);
  }
  return std::max<int64_t>(range.end - range.begin, 0);
}

int64_t Count(const AttentionShape& shape, int64_t heads, int64_t length,
              int64_t width) {
  return shape.batch * heads * length * width;
}

// Cotangents and gradients, each as wide as a gradient is.
int64_t GradientBytes(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const GradientSelection& wanted = problem.gradients;
  const int64_t rows = Count(shape, shape.q_heads, shape.q_length, 1);
  const int64_t queries =
      problem.ragged ? problem.q_rows * shape.q_heads : rows;
  const int64_t keys = problem.ragged
                           ? problem.kv_rows * shape.kv_heads
                           : Count(shape, shape.kv_heads, shape.kv_length, 1);
  int64_t elements = 0;
  if (wanted.from_output) elements += queries * shape.v_dim;
  if (wanted.from_lse) elements += rows;
  if (wanted.q) elements += queries * shape.q_dim;
  if (wanted.k) elements += keys * shape.k_dim;
  if (wanted.v) elements += keys * shape.v_dim;
  for (const uint32_t input : wanted.inputs) {
    elements += problem.inputs[input].shape.element_count();
  }
  return elements * static_cast<int64_t>(SizeOf(problem.output_dtype));
}

// Each key enters the state, each query reads it: a product of d_k x d_v each,
// and one more for a key that is first compared with the state. The way back
// forms the states anew and goes through each step twice.
ComputeCost LinearCost(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const auto& linear = std::get<LinearNormalizer>(problem.spec.normalizer);
  const double state =
      static_cast<double>(s.k_dim) * static_cast<double>(s.v_dim);
  const double keys = static_cast<double>(s.kv_heads * s.kv_length) *
                      (linear.beta.has_value() ? 2 : 1);
  const auto queries = static_cast<double>(s.q_heads * s.q_length);
  const double steps = 2 * static_cast<double>(s.batch) * (keys + queries) *
                       (problem.gradients.any() ? 3 : 1);
  return {.flops = state * steps,
          .work = std::max<double>(state, kLeastPairWidth) * steps};
}

}  // namespace

double VisiblePairs(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto planes = static_cast<double>(shape.batch * shape.q_heads);
  const auto masks = MakeMasks(problem);
  if (masks.empty() || planes == 0 || shape.q_length == 0) {
    return planes * static_cast<double>(shape.q_length) *
           static_cast<double>(shape.kv_length);
  }
  const AttentionArgs args = ArgsWithoutData(problem);
  const CallView call{shape, args};
  // The middle rows of kSamples parts of equal length, or every row.
  const int64_t samples = std::min(shape.q_length, kSamples);
  const double rows_of_part =
      static_cast<double>(shape.q_length) / static_cast<double>(samples);
  double pairs = 0;
  for (int64_t part = 0; part < samples; ++part) {
    const auto row =
        static_cast<int64_t>((static_cast<double>(part) + 0.5) * rows_of_part);
    pairs += static_cast<double>(VisibleOfRow(masks, call, row));
  }
  return pairs * rows_of_part * planes;
}

ComputeCost CostOf(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  if (std::holds_alternative<LinearNormalizer>(problem.spec.normalizer)) {
    return LinearCost(problem);
  }
  const ScoreSpec& score = problem.spec.score;
  const int64_t score_width =
      ScoreTable()[score.index()].make(score, problem)->prepared_width();
  // The way back forms the scores anew, then has two products with their
  // gradient (dQ, dK), one with V and one for dV.
  const int64_t width =
      problem.gradients.any()
          ? 3 * score_width + 2 * shape.v_dim
          : score_width + (problem.outputs.output ? shape.v_dim : 0);
  const double pairs = VisiblePairs(problem);
  return {.flops = 2 * static_cast<double>(width) * pairs,
          .work = 2 * static_cast<double>(std::max(width, kLeastPairWidth)) *
                  pairs};
}

int64_t TensorBytes(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto bytes = [](DType dtype, int64_t count) {
    return static_cast<int64_t>(SizeOf(dtype)) * count;
  };
  // Of q and the output, and of k and v.
  const int64_t q_rows =
      problem.ragged ? problem.q_rows : shape.batch * shape.q_length;
  const int64_t kv_rows =
      problem.ragged ? problem.kv_rows : shape.batch * shape.kv_length;
  int64_t total = bytes(problem.dtype, q_rows * shape.q_heads * shape.q_dim) +
                  bytes(problem.kv_dtype,
                        kv_rows * shape.kv_heads * (shape.k_dim + shape.v_dim));
  for (const TensorSignature& input : problem.inputs) {
    total += bytes(input.dtype, input.shape.element_count());
  }
  const OutputSelection& outputs = problem.outputs;
  if (outputs.output) {
    total += bytes(problem.output_dtype, q_rows * shape.q_heads * shape.v_dim);
  }
  const DType wide = problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t scores =
      Count(shape, shape.q_heads, shape.q_length, shape.kv_length);
  const int64_t score_tensors = int64_t{outputs.logits} +
                                outputs.masked_logits + outputs.weights +
                                outputs.contribution + outputs.gradient_weight;
  total += score_tensors * bytes(wide, scores);
  if (outputs.dropout_keep) total += bytes(DType::kBool, scores);
  if (outputs.state) {
    total +=
        bytes(wide, Count(shape, shape.kv_heads, shape.k_dim, shape.v_dim));
  }
  return total + GradientBytes(problem);
}

}  // namespace attn
