// A multi-head module with projections: the client projects, in double, and
// the service attends.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

// One of the three inputs of the module, and its share of the projections.
struct Part {
  const char* input;
  const char* weight;  // If the three weights are not one.
  const char* extra;   // bias_k, bias_v
  int64_t index;
};

constexpr Part kParts[] = {{"q", "q_proj_weight", nullptr, 0},
                           {"k", "k_proj_weight", "bias_k", 1},
                           {"v", "v_proj_weight", "bias_v", 2}};

// Rows [index * n, (index + 1) * n) of the joined projection.
HostTensor Share(const HostTensor& joined, int64_t index, int64_t width) {
  return Slice(joined, 0, index * width, (index + 1) * width);
}

// [B, S, E]: self-attention gives q alone.
absl::StatusOr<HostTensor> Projected(const Case& tested, const Part& part) {
  const HostTensor* x = tested.Input(part.input);
  if (x == nullptr) x = tested.Input("q");
  const int64_t width = tested.params.value("embed_dim", int64_t{0});
  const HostTensor* own = tested.Input(part.weight);
  const HostTensor* joined = tested.Input("in_proj_weight");
  if (x == nullptr || (own == nullptr && joined == nullptr)) {
    return Skip("a module without its projections");
  }
  const HostTensor weight = own != nullptr ? HostTensor::Copy(own->view())
                                           : Share(*joined, part.index, width);
  const HostTensor* biases = tested.Input("in_proj_bias");
  if (biases == nullptr) return Project(*x, weight, nullptr);
  const HostTensor bias = Share(*biases, part.index, width);
  return Project(*x, weight, &bias);
}

// Appends one key and value that every sequence has, [1, 1, E].
absl::StatusOr<HostTensor> WithExtra(const HostTensor& projected,
                                     const HostTensor& extra) {
  const Shape& shape = projected.shape();
  HostTensor row(DType::kF64, Shape{shape[0], 1, shape[2]});
  for (int64_t i = 0; i < row.element_count(); ++i) {
    row.Set(i, extra.At(i % shape[2]));
  }
  return Concat(projected, row, 1);
}

absl::StatusOr<HostTensor> ReadPart(const Case& tested, const Part& part) {
  auto projected = Projected(tested, part);
  const json options = tested.params.value("options", json::object());
  const HostTensor* extra =
      part.extra == nullptr ? nullptr : tested.Input(part.extra);
  if (projected.ok() && extra != nullptr) {
    projected = WithExtra(*projected, *extra);
  }
  if (projected.ok() && part.extra != nullptr &&
      options.value("add_zero_attn", false)) {
    const HostTensor zero(DType::kF64, Shape{projected->shape()[2]});
    projected = WithExtra(*projected, zero);
  }
  if (!projected.ok()) return projected.status();
  return SplitHeads(*projected, tested.params.value("num_heads", int64_t{0}));
}

absl::StatusOr<ServiceCall> MakeCall(const Case& tested) {
  ServiceCall call;
  HostTensor* targets[] = {&call.q, &call.k, &call.v};
  for (const Part& part : kParts) {
    auto tensor = ReadPart(tested, part);
    if (!tensor.ok()) return tensor.status();
    *targets[part.index] = *std::move(tensor);
  }
  if (const HostTensor* bias = tested.Input("bias"); bias != nullptr) {
    call.AddBias(HostTensor::Copy(bias->view()));
  }
  absl::Status status =
      ApplyMask(tested, tested.params.value("mask", json()), call);
  if (status.ok()) status = ApplyMaskInputs(tested, call);
  if (!status.ok()) return status;
  return call;
}

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
  const auto call = MakeCall(tested);
  if (!call.ok()) return call.status();
  auto outputs = service.Attend(*call, {"output", "weights"});
  if (!outputs.ok()) return outputs.status();
  const HostTensor* weight = tested.Input("out_proj_weight");
  if (weight == nullptr) return Skip("a module without its projections");
  auto out = Project(JoinHeads(outputs->at("output")), *weight,
                     tested.Input("out_proj_bias"));
  if (!out.ok()) return out.status();
  Outcome outcome;
  outcome.forward_only = true;
  outcome.got["out"] = *std::move(out);
  HostTensor& weights = outputs->at("weights");
  const std::string kind = tested.params.value("weights_output", "");
  outcome.got["weights"] = absl::StartsWith(kind, "mean")
                               ? MeanOverHeads(weights)
                               : std::move(weights);
  return outcome;
}

}  // namespace attn
