#include "client/cli/check/module_gradients.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/projection_gradients.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// The cotangent of the module's output: given, or of the loss in words.
absl::StatusOr<HostTensor> ModuleOutputCotangent(const Case& tested) {
  if (const HostTensor* given = tested.Input("dout"); given != nullptr) {
    return given->To(DType::kF64);
  }
  const auto out = tested.outputs.find("out");
  if (tested.params.value("loss", "") != "sum of output rows 0 and 1" ||
      out == tested.outputs.end()) {
    return Skip("a module without a cotangent");
  }
  const Shape& shape = out->second.shape();
  const auto ones = Filled(Shape{shape[0], 2, shape[2]}, 1);
  const auto zeros = Filled(Shape{shape[0], shape[1] - 2, shape[2]}, 0);
  return Concat(ones, zeros, 1);
}

// One input, its layer, and the rows that every sequence has.
void AddPart(const Case& tested, const ModulePart& part, PartGradients got,
             TensorMap& gradients) {
  gradients[absl::StrCat("d_", part.weight)] = std::move(got.weight);
  if (got.bias.has_value()) {
    gradients[absl::StrCat("d_", part.input, "_proj_bias")] =
        *std::move(got.bias);
  }
  if (part.extra != nullptr && tested.HasInput(part.extra)) {
    gradients[absl::StrCat("d_", part.extra)] = std::move(got.extras[0]);
  }
  // Self-attention: x is all three.
  const std::string name =
      tested.HasInput("k") ? absl::StrCat("d", part.input) : "dx";
  const auto before = gradients.find(name);
  gradients[name] = before == gradients.end() ? std::move(got.tokens)
                                              : Sum(before->second, got.tokens);
}

// The joined projection's gradient from those of its three shares.
absl::Status Join(const char* name, const char* const (&parts)[3],
                  TensorMap& gradients) {
  auto joined = Concat(gradients[parts[0]], gradients[parts[1]], 0);
  if (joined.ok()) joined = Concat(*joined, gradients[parts[2]], 0);
  if (!joined.ok()) return joined.status();
  gradients[name] = *std::move(joined);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddModuleGradients(const Case& tested, const ModuleCall& module,
                                const Service& service, TensorMap& gradients) {
  const auto d_out = ModuleOutputCotangent(tested);
  if (!d_out.ok()) return d_out.status();
  auto got =
      service.AttendBackward(module.call, {.output = &*d_out, .lse = nullptr});
  if (!got.ok()) return got.status();
  const ProjectionSpec& spec = *module.call.spec.projections;
  const auto of = [&got](const std::optional<uint32_t>& input) {
    return input ? std::optional(got->inputs[*input].To(DType::kF64))
                 : std::nullopt;
  };
  gradients["d_out_proj_weight"] = *of(spec.output->weight);
  if (auto bias = of(spec.output->bias)) {
    gradients["d_out_proj_bias"] = *std::move(bias);
  }
  const HostTensor* rows[] = {&got->q, &got->k, &got->v};
  const std::optional<LinearLayer>* layers[] = {&spec.query, &spec.key,
                                                &spec.value};
  for (const ModulePart& part : kModuleParts) {
    const auto index = static_cast<size_t>(part.index);
    const LinearLayer& layer = **layers[index];
    PartGradients whole;
    whole.tokens = rows[index]->To(DType::kF64);
    whole.weight = *of(layer.weight);
    whole.bias = of(layer.bias);
    AddPart(tested, part, WithoutExtras(module.parts[index], std::move(whole)),
            gradients);
  }
  if (tested.HasInput("in_proj_bias")) {
    absl::Status status =
        Join("d_in_proj_bias",
             {"d_q_proj_bias", "d_k_proj_bias", "d_v_proj_bias"}, gradients);
    if (!status.ok()) return status;
  }
  if (!tested.HasInput("in_proj_weight")) return absl::OkStatus();
  return Join("d_in_proj_weight",
              {"d_q_proj_weight", "d_k_proj_weight", "d_v_proj_weight"},
              gradients);
}

}  // namespace attn
