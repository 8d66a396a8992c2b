#include "tests/bench/serving/in_process_steps.h"

#include <stdexcept>

#include "client/examples/storyteller/session_attention.h"

namespace attn {
namespace {

constexpr int64_t kPoolBytes = int64_t{256} << 20;

KvLayout LayoutOf(const LlamaSizes& sizes) {
  return {.kv_heads = sizes.kv_heads,
          .k_dim = sizes.head_dim(),
          .v_dim = sizes.head_dim(),
          .dtype = DType::kF32};
}

// [tokens, heads, dim] as [1, heads, tokens, dim].
TensorView TurnedRows(const std::vector<float>& rows, int64_t tokens,
                      int64_t heads, int64_t dim) {
  return TensorView::Dense(rows.data(), DType::kF32, {1, tokens, heads, dim})
      .SwapAxes(1, 2);
}

void ThrowUnlessOk(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace

InProcessSteps::InProcessSteps(Engine& engine, const LlamaSizes& sizes)
    : engine_(engine),
      sizes_(sizes),
      steps_(StepSpec::Make(SessionFor(sizes).spec, {}, LayoutOf(sizes),
                            sizes.heads, sizes.head_dim())
                 .value()),
      pool_(kPoolBytes),
      layers_(static_cast<size_t>(sizes.layers),
              KvSequence(LayoutOf(sizes), pool_)) {}

std::vector<float> InProcessSteps::Attend(const LlamaRows& rows) {
  KvSequence& layer = layers_[static_cast<size_t>(rows.layer)];
  const int64_t position = layer.length();
  const int64_t dim = sizes_.head_dim();
  AttentionArgs args = steps_.Args(position + rows.tokens);
  args.q = TurnedRows(rows.q, rows.tokens, sizes_.heads, dim);
  OutputSelection wanted;
  auto plan =
      engine_.Plan(steps_.At(position), args, wanted, DType::kF32).value();
  ThrowUnlessOk(layer.Reserve(rows.tokens));
  layer.Append(TurnedRows(rows.k, rows.tokens, sizes_.kv_heads, dim),
               TurnedRows(rows.v, rows.tokens, sizes_.kv_heads, dim),
               steps_.preparation());
  args.kv_blocks = layer.Describe();
  std::vector<float> seen(rows.q.size());
  AttentionOutputs outputs;
  outputs.output = MutableTensorView::Dense(seen.data(), DType::kF32,
                                            {1, rows.tokens, sizes_.heads, dim})
                       .SwapAxes(1, 2);
  ThrowUnlessOk(engine_.Run(std::move(plan), args, outputs).status);
  return seen;
}

}  // namespace attn
