#include "client/cli/check/module_parts.h"

#include <utility>

#include "client/cli/check/mask_params.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

// Rows [index * n, (index + 1) * n) of the joined projection.
HostTensor Share(const HostTensor& joined, int64_t index, int64_t width) {
  return Slice(joined, 0, index * width, (index + 1) * width);
}

// The rows that every sequence has after its own: the case's, then zeros.
std::vector<HostTensor> ExtraRows(const Case& tested, const ModulePart& part,
                                  int64_t width) {
  std::vector<HostTensor> rows;
  if (part.extra == nullptr) return rows;
  if (const HostTensor* extra = tested.Input(part.extra)) {
    rows.push_back(extra->To(DType::kF64));
  }
  const json options = tested.params.value("options", json::object());
  if (options.value("add_zero_attn", false)) {
    rows.push_back(Filled(Shape{width}, 0));
  }
  return rows;
}

// One more token and one more column, 1 where the two meet.
absl::Status AddToken(HostTensor& tokens) {
  const Shape shape = tokens.shape();
  auto wider = Concat(tokens, Filled(Shape{shape[0], shape[1], 1}, 0), 2);
  if (!wider.ok()) return wider.status();
  HostTensor row = Filled(Shape{shape[0], 1, shape[2] + 1}, 0);
  for (int64_t b = 0; b < shape[0]; ++b) {
    row.Set((b + 1) * (shape[2] + 1) - 1, 1);
  }
  auto longer = Concat(*wider, row, 1);
  if (!longer.ok()) return longer.status();
  tokens = *std::move(longer);
  return absl::OkStatus();
}

// One more column of weights.
absl::Status AddColumn(const HostTensor& row, ModuleTokens& part) {
  const int64_t outputs = part.weight.shape()[0];
  HostTensor column(DType::kF64, Shape{outputs, 1});
  for (int64_t o = 0; o < outputs; ++o) {
    column.Set(o, row.At(o) - (part.bias ? part.bias->At(o) : 0));
  }
  auto wider = Concat(part.weight, column, 1);
  if (!wider.ok()) return wider.status();
  part.weight = *std::move(wider);
  ++part.extra;
  return absl::OkStatus();
}

LinearLayer AddLayer(const HostTensor& weight, const HostTensor* bias,
                     ServiceCall& call) {
  LinearLayer result;
  result.weight = call.AddInput(HostTensor::Copy(weight.view()));
  if (bias != nullptr) {
    result.bias = call.AddInput(HostTensor::Copy(bias->view()));
  }
  return result;
}

absl::Status AddStages(const Case& tested, ServiceCall& call) {
  if (const HostTensor* bias = tested.Input("bias"); bias != nullptr) {
    call.AddBias(HostTensor::Copy(bias->view()));
  }
  absl::Status status =
      ApplyMask(tested, tested.params.value("mask", json()), call);
  if (status.ok()) status = ApplyMaskInputs(tested, call);
  return status;
}

}  // namespace

absl::StatusOr<ModuleCall> MakeModuleCall(const Case& tested) {
  ModuleCall module;
  ServiceCall& call = module.call;
  ProjectionSpec& spec = call.spec.projections.emplace();
  spec.q_heads = tested.params.value("num_heads", int64_t{0});
  HostTensor* targets[] = {&call.q, &call.k, &call.v};
  std::optional<LinearLayer>* layers[] = {&spec.query, &spec.key, &spec.value};
  for (const ModulePart& part : kModuleParts) {
    auto made = TokensOf(tested, part);
    if (!made.ok()) return made.status();
    const ModuleTokens& tokens = module.parts.emplace_back(*std::move(made));
    *targets[part.index] = HostTensor::Copy(tokens.tokens.view());
    *layers[part.index] =
        AddLayer(tokens.weight, tokens.bias ? &*tokens.bias : nullptr, call);
  }
  const HostTensor* weight = tested.Input("out_proj_weight");
  if (weight == nullptr) return Skip("a module without its projections");
  spec.output = AddLayer(*weight, tested.Input("out_proj_bias"), call);
  absl::Status status = AddStages(tested, call);
  if (!status.ok()) return status;
  return module;
}

absl::StatusOr<ModuleTokens> TokensOf(const Case& tested,
                                      const ModulePart& part) {
  const HostTensor* x = tested.Input(part.input);
  if (x == nullptr) x = tested.Input("q");
  const HostTensor* own = tested.Input(part.weight);
  const HostTensor* joined = tested.Input("in_proj_weight");
  if (x == nullptr || (own == nullptr && joined == nullptr)) {
    return Skip("a module without its projections");
  }
  const int64_t width = tested.params.value("embed_dim", int64_t{0});
  ModuleTokens result;
  result.tokens = x->To(DType::kF64);
  result.weight = own != nullptr
                      ? own->To(DType::kF64)
                      : Share(*joined, part.index, width).To(DType::kF64);
  const HostTensor* biases = tested.Input("in_proj_bias");
  if (biases != nullptr) {
    result.bias = Share(*biases, part.index, width).To(DType::kF64);
  }
  for (const HostTensor& row : ExtraRows(tested, part, width)) {
    absl::Status status = AddToken(result.tokens);
    if (status.ok()) status = AddColumn(row, result);
    if (!status.ok()) return status;
  }
  return result;
}

PartGradients WithoutExtras(const ModuleTokens& sent, PartGradients gradients) {
  const int64_t length = sent.tokens.shape()[1] - sent.extra;
  const int64_t in = sent.tokens.shape()[2] - sent.extra;
  PartGradients result;
  result.tokens = Slice(Slice(gradients.tokens, 1, 0, length), 2, 0, in);
  result.weight = Slice(gradients.weight, 1, 0, in);
  result.bias = std::move(gradients.bias);
  const int64_t outputs = sent.weight.shape()[0];
  for (int64_t e = 0; e < sent.extra; ++e) {
    const HostTensor column = Slice(gradients.weight, 1, in + e, in + e + 1);
    HostTensor row(DType::kF64, Shape{1, 1, outputs});
    for (int64_t o = 0; o < outputs; ++o) {
      row.Set(o, column.At(o));
      if (!result.bias) continue;
      // The column's weights were the row less the bias.
      result.bias->Set(o, result.bias->At(o) - column.At(o));
    }
    result.extras.push_back(std::move(row));
  }
  return result;
}

}  // namespace attn
