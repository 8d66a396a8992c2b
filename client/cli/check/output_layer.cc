#include "client/cli/check/output_layer.h"

#include <cmath>
#include <string>
#include <utility>

#include "client/cli/check/outcome.h"
#include "client/cli/check/projection_gradients.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

bool HasTanh(const Case& tested) {
  const nlohmann::json score =
      tested.params.value("score", nlohmann::json::object());
  return score.value("kind", "") != "additive";
}

// [context, q], [B, S, 2 D].
absl::StatusOr<HostTensor> Joined(const Case& tested,
                                  const HostTensor& context) {
  const HostTensor* q = tested.Input("q");
  if (tested.Input("linear_out_weight") == nullptr || q == nullptr) {
    return Skip("an output layer without its weight");
  }
  const auto flat = Reshaped(context.To(DType::kF64), q->shape());
  if (!flat.ok()) return flat.status();
  return Concat(*flat, q->To(DType::kF64), q->shape().rank() - 1);
}

}  // namespace

absl::StatusOr<HostTensor> ApplyOutputLayer(const Case& tested,
                                            const HostTensor& context) {
  const auto joined = Joined(tested, context);
  if (!joined.ok()) return joined.status();
  auto result = Project(*joined, *tested.Input("linear_out_weight"),
                        tested.Input("linear_out_bias"));
  if (!result.ok() || !HasTanh(tested)) return result;
  return Map(*result, DType::kF64, [](double x) { return std::tanh(x); });
}

absl::StatusOr<OutputLayerGradients> OutputLayerBackward(
    const Case& tested, const HostTensor& context) {
  const auto joined = Joined(tested, context);
  const auto result = ApplyOutputLayer(tested, context);
  const HostTensor* d_output = tested.Input("dout");
  if (!joined.ok()) return joined.status();
  if (!result.ok()) return result.status();
  if (d_output == nullptr) return Skip("an output layer without a cotangent");
  HostTensor before = d_output->To(DType::kF64);
  for (int64_t i = 0; HasTanh(tested) && i < before.element_count(); ++i) {
    const double value = result->At(i);
    before.Set(i, before.At(i) * (1 - value * value));
  }
  auto layer =
      ProjectBackward(*joined, *tested.Input("linear_out_weight"), before);
  if (!layer.ok()) return layer.status();
  const int last = joined->shape().rank() - 1;
  const int64_t width = joined->shape()[last] / 2;
  auto d_context = Reshaped(Slice(layer->x, last, 0, width), context.shape());
  if (!d_context.ok()) return d_context.status();
  return OutputLayerGradients{*std::move(d_context),
                              Slice(layer->x, last, width, 2 * width),
                              std::move(layer->weight), std::move(layer->bias)};
}

}  // namespace attn
