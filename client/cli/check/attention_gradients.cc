#include "client/cli/check/attention_gradients.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/output_layer.h"
#include "client/cli/check/projection_gradients.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// What a case's gradients are made of.
struct GradientSource {
  const Case& tested;
  const ServiceCall& call;
  CaseGradients gradients;
  // Of a case that ends with a layer.
  std::optional<OutputLayerGradients> layer;
};

// A tensor of one of the case's layouts as [B, H, S, D], given the shape of the
// service's own.
absl::StatusOr<HostTensor> Lift(const Case& tested, const HostTensor& tensor,
                                const Shape& shape) {
  if (tested.params.value("layout", "") == "BSHD") return SwapHeads(tensor);
  return Reshaped(tensor, shape);
}

// The reverse, of the shape `wanted`.
absl::StatusOr<HostTensor> Lower(const Case& tested, const HostTensor& tensor,
                                 const Shape& wanted) {
  const HostTensor wide = tensor.To(DType::kF64);
  if (tested.params.value("layout", "") == "BSHD") return SwapHeads(wide);
  return Reshaped(wide, wanted);
}

absl::StatusOr<HostTensor> OfQueries(const GradientSource& from,
                                     const Shape& wanted) {
  auto gradient = Lower(from.tested, from.gradients.q, wanted);
  if (!gradient.ok() || !from.layer.has_value()) return gradient;
  return Sum(*gradient, from.layer->q);
}

absl::StatusOr<HostTensor> OfKeys(const GradientSource& from,
                                  const Shape& wanted) {
  return Lower(from.tested, from.gradients.k, wanted);
}

absl::StatusOr<HostTensor> OfValues(const GradientSource& from,
                                    const Shape& wanted) {
  return Lower(from.tested, from.gradients.v, wanted);
}

// One tensor is keys and values.
absl::StatusOr<HostTensor> OfMemory(const GradientSource& from,
                                    const Shape& wanted) {
  return Lower(from.tested, Sum(from.gradients.k, from.gradients.v), wanted);
}

absl::StatusOr<HostTensor> OfLayerWeight(const GradientSource& from,
                                         const Shape& wanted) {
  if (!from.layer.has_value()) return Skip("a case without an output layer");
  return Reshaped(from.layer->weight, wanted);
}

absl::StatusOr<HostTensor> OfLayerBias(const GradientSource& from,
                                       const Shape& wanted) {
  if (!from.layer.has_value()) return Skip("a case without an output layer");
  return Reshaped(from.layer->bias, wanted);
}

struct GradientRow {
  const char* output;
  absl::StatusOr<HostTensor> (*get)(const GradientSource& from,
                                    const Shape& wanted);
};

constexpr GradientRow kGradients[] = {
    {"dq", OfQueries},
    {"dk", OfKeys},
    {"dv", OfValues},
    {"dmem", OfMemory},
    {"d_linear_out_weight", OfLayerWeight},
    {"d_linear_out_bias", OfLayerBias},
};

// Any other gradient is that of the input it is named after: dbias, d_v_weight.
absl::StatusOr<HostTensor> OfInput(const GradientSource& from,
                                   const std::string& output,
                                   const Shape& wanted) {
  const std::string name =
      output.substr(absl::StartsWith(output, "d_") ? 2 : 1);
  const auto place = from.call.places.find(name);
  if (place == from.call.places.end()) {
    return Skip(absl::StrCat("output ", output));
  }
  const HostTensor gradient =
      from.gradients.inputs[place->second.index].To(DType::kF64);
  return Reshaped(place->second.transposed ? Transposed(gradient)
                                           : HostTensor::Copy(gradient.view()),
                  wanted);
}

absl::StatusOr<HostTensor> Get(const GradientSource& from,
                               const std::string& output, const Shape& wanted) {
  for (const GradientRow& row : kGradients) {
    if (output == row.output) return row.get(from, wanted);
  }
  return OfInput(from, output, wanted);
}

// The cotangent of the service's output, [B, Hq, Sq, d_v].
absl::StatusOr<HostTensor> OutputCotangent(const GradientSource& from) {
  if (from.layer.has_value()) {
    return HostTensor::Copy(from.layer->context.view());
  }
  const Shape& q = from.call.q.shape();
  const Shape& v = from.call.v.shape();
  return Lift(from.tested, *from.tested.Input("dout"),
              Shape{q[0], q[1], q[2], v[3]});
}

absl::Status RunBackward(const TensorMap& outputs, const Service& service,
                         GradientSource& from) {
  if (!from.tested.params.value("output", nlohmann::json()).is_null()) {
    auto layer = OutputLayerBackward(from.tested, outputs.at("output"));
    if (!layer.ok()) return layer.status();
    from.layer = *std::move(layer);
  }
  CaseCotangents cotangents;
  cotangents.lse = from.tested.Input("dlse");
  absl::StatusOr<HostTensor> d_output = absl::NotFoundError("dout");
  if (from.tested.HasInput("dout")) {
    d_output = OutputCotangent(from);
    if (!d_output.ok()) return d_output.status();
    cotangents.output = &*d_output;
  }
  auto gradients = service.AttendBackward(from.call, cotangents);
  if (!gradients.ok()) return gradients.status();
  from.gradients = *std::move(gradients);
  return absl::OkStatus();
}

}  // namespace

bool IsGradient(const Case& tested, const std::string& name) {
  return absl::EndsWith(tested.op, "_vjp") && absl::StartsWith(name, "d");
}

absl::Status AddGradients(const Case& tested, const ServiceCall& call,
                          const TensorMap& outputs, const Service& service,
                          Outcome& outcome) {
  const bool any = std::any_of(
      tested.outputs.begin(), tested.outputs.end(),
      [&tested](const auto& entry) { return IsGradient(tested, entry.first); });
  if (!any) return absl::OkStatus();
  GradientSource from{tested, call, {}, {}};
  absl::Status status = RunBackward(outputs, service, from);
  if (!status.ok()) return status;
  for (const auto& [name, want] : tested.outputs) {
    if (!IsGradient(tested, name)) continue;
    auto gradient = Get(from, name, want.shape());
    if (!gradient.ok()) return gradient.status();
    outcome.got[name] = *std::move(gradient);
  }
  return absl::OkStatus();
}

}  // namespace attn
