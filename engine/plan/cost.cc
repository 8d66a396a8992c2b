#include "engine/plan/cost.h"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/masks/mask.h"

namespace attn {
namespace {

// The masks whose shape is known without data.
std::vector<std::unique_ptr<Mask>> StructuralMasks(const Problem& problem) {
  std::vector<std::unique_ptr<Mask>> masks;
  for (const MaskSpec& spec : problem.spec.masks) {
    if (std::holds_alternative<DenseMask>(spec)) continue;
    for (const MaskEntry& entry : MaskTable()) {
      if (entry.index == spec.index()) {
        masks.push_back(entry.make(spec, problem));
      }
    }
  }
  return masks;
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

}  // namespace

double VisiblePairs(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto planes = static_cast<double>(shape.batch * shape.q_heads);
  const auto masks = StructuralMasks(problem);
  if (masks.empty() || planes == 0) {
    return planes * static_cast<double>(shape.q_length) *
           static_cast<double>(shape.kv_length);
  }
  const AttentionArgs no_data;
  const CallView call{shape, no_data};
  double pairs = 0;
  for (int64_t row = 0; row < shape.q_length; ++row) {
    pairs += static_cast<double>(VisibleOfRow(masks, call, row));
  }
  return pairs * planes;
}

double Flops(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const int64_t width =
      shape.k_dim + (problem.outputs.output ? shape.v_dim : 0);
  return 2 * static_cast<double>(width) * VisiblePairs(problem);
}

int64_t TensorBytes(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto bytes = [](DType dtype, int64_t count) {
    return static_cast<int64_t>(SizeOf(dtype)) * count;
  };
  int64_t total = bytes(
      problem.dtype, Count(shape, shape.q_heads, shape.q_length, shape.q_dim) +
                         Count(shape, shape.kv_heads, shape.kv_length,
                               shape.k_dim + shape.v_dim));
  for (const TensorSignature& input : problem.inputs) {
    total += bytes(input.dtype, input.shape.element_count());
  }
  const OutputSelection& outputs = problem.outputs;
  if (outputs.output) {
    total += bytes(problem.output_dtype,
                   Count(shape, shape.q_heads, shape.q_length, shape.v_dim));
  }
  const int64_t score_tensors =
      int64_t{outputs.logits} + outputs.masked_logits + outputs.weights;
  const DType score_dtype =
      problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return total + score_tensors *
                     bytes(score_dtype, Count(shape, shape.q_heads,
                                              shape.q_length, shape.kv_length));
}

}  // namespace attn
