#include "client/cli/check/output_layer.h"

#include <cmath>
#include <string>

#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {

absl::StatusOr<HostTensor> ApplyOutputLayer(const Case& tested,
                                            const HostTensor& context) {
  const HostTensor* weight = tested.Input("linear_out_weight");
  const HostTensor* q = tested.Input("q");
  if (weight == nullptr || q == nullptr) {
    return Skip("an output layer without its weight");
  }
  const auto flat = Reshaped(context.To(DType::kF64), q->shape());
  if (!flat.ok()) return flat.status();
  const auto joined = Concat(*flat, q->To(DType::kF64), q->shape().rank() - 1);
  if (!joined.ok()) return joined.status();
  auto result = Project(*joined, *weight, tested.Input("linear_out_bias"));
  const nlohmann::json score =
      tested.params.value("score", nlohmann::json::object());
  if (!result.ok() || score.value("kind", "") == "additive") return result;
  return Map(*result, DType::kF64, [](double x) { return std::tanh(x); });
}

}  // namespace attn
