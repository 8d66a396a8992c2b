#include "client/examples/storyteller/session_attention.h"

#include "engine/core/tensor_view.h"

namespace attn {
namespace {

// [tokens, heads, dim] as [1, heads, tokens, dim].
TensorView Rows(const std::vector<float>& values, int64_t tokens, int64_t heads,
                int64_t dim) {
  return TensorView::Dense(values.data(), DType::kF32,
                           Shape{1, tokens, heads, dim})
      .SwapAxes(1, 2);
}

}  // namespace

NewSession SessionFor(const LlamaSizes& sizes) {
  NewSession session;
  RotaryTransform rotary;
  rotary.layout = RotaryLayout::kInterleaved;
  rotary.base = 10000;
  session.spec.transforms = {rotary};
  session.spec.masks = {CausalMask{Alignment::kBottomRight}};
  session.layers = static_cast<int>(sizes.layers);
  session.q_heads = sizes.heads;
  session.kv_heads = sizes.kv_heads;
  session.q_dim = sizes.head_dim();
  session.max_tokens = sizes.longest_text;
  return session;
}

absl::StatusOr<std::vector<float>> AttendRemotely(const LlamaSizes& sizes,
                                                  const LlamaRows& rows,
                                                  RemoteSession& session) {
  const int64_t dim = sizes.head_dim();
  const auto outputs =
      session.Step({{.layer = rows.layer,
                     .q = Rows(rows.q, rows.tokens, sizes.heads, dim),
                     .k = Rows(rows.k, rows.tokens, sizes.kv_heads, dim),
                     .v = Rows(rows.v, rows.tokens, sizes.kv_heads, dim),
                     // As the rows lie, so that nothing is turned on the way.
                     .bshd = true}});
  if (!outputs.ok()) return outputs.status();
  const auto seen = outputs->front().values<float>();
  return std::vector<float>(seen.begin(), seen.end());
}

}  // namespace attn
