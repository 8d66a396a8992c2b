// A multi-head module with its projections, from token rows to token rows.
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/module_gradients.h"
#include "client/cli/check/module_parts.h"

namespace attn {
namespace {

// [B, H, Sq, Sk] to [B, Sq, Sk].
HostTensor MeanOverHeads(const HostTensor& weights) {
  const Shape& shape = weights.shape();
  const int64_t plane = shape[2] * shape[3];
  HostTensor mean(DType::kF64, Shape{shape[0], shape[2], shape[3]});
  for (int64_t i = 0; i < weights.element_count(); ++i) {
    const int64_t at = i / (plane * shape[1]) * plane + i % plane;
    mean.Set(at, mean.At(at) + weights.At(i) / static_cast<double>(shape[1]));
  }
  return mean;
}

}  // namespace

absl::StatusOr<Outcome> HandleMultiHeadModule(const Case& tested,
                                              const Service& service) {
  const auto module = MakeModuleCall(tested);
  if (!module.ok()) return module.status();
  auto outputs = service.Attend(module->call, {"output", "weights"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  absl::Status gradients =
      AddModuleGradients(tested, *module, service, outcome.got);
  if (!gradients.ok()) return gradients;
  outcome.got["out"] = std::move(outputs->at("output"));
  HostTensor& weights = outputs->at("weights");
  const std::string kind = tested.params.value("weights_output", "");
  outcome.got["weights"] = absl::StartsWith(kind, "mean")
                               ? MeanOverHeads(weights)
                               : std::move(weights);
  return outcome;
}

}  // namespace attn
