#include "client/load/reference_output.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/engine.h"

namespace attn {
namespace {

// |got - want| <= absolute + relative * |want|
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Sums are taken in F32 but for F64; a narrower output adds half a unit in its
// last place, doubled here for good measure.
Tolerance ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {1e-12, 1e-10};
    case DType::kF16:
      return {1e-5, 0x1.0p-10};
    case DType::kBF16:
      return {1e-5, 0x1.0p-7};
    default:
      return {1e-5, 1e-4};
  }
}

bool Agrees(double got, double want, const Tolerance& tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <=
         tolerance.absolute + tolerance.relative * std::abs(want);
}

absl::StatusOr<HostTensor> Compute(Engine& engine, const CallProfile& profile,
                                   const Payload& payload) {
  const HostTensor q = payload.q.To(DType::kF64);
  const HostTensor k = payload.k.To(DType::kF64);
  const HostTensor v = payload.v.To(DType::kF64);
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  auto plan = engine.Plan(profile.Spec(), args, OutputSelection{}, DType::kF64,
                          "reference");
  if (!plan.ok()) return plan.status();
  const AttentionShape& s = profile.shape;
  HostTensor output(DType::kF64, {s.batch, s.q_heads, s.q_length, s.v_dim});
  AttentionOutputs outputs;
  outputs.output =
      MutableTensorView::Dense(output.data(), DType::kF64, output.shape());
  const CallReport report = engine.Run(*std::move(plan), args, outputs);
  if (!report.status.ok()) return report.status;
  return output;
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> ReferenceOutputs(
    const CallProfile& profile, const std::vector<Payload>& payloads) {
  Engine engine;
  std::vector<HostTensor> outputs;
  for (const Payload& payload : payloads) {
    absl::StatusOr<HostTensor> output = Compute(engine, profile, payload);
    if (!output.ok()) return output.status();
    outputs.push_back(*std::move(output));
  }
  return outputs;
}

absl::Status CompareOutput(const ResponseTensor& output,
                           const HostTensor& expected) {
  if (!(output.shape == expected.shape())) {
    return absl::DataLossError(
        absl::StrFormat("output has shape %s, expected %s",
                        output.shape.ToString(), expected.shape().ToString()));
  }
  const Tolerance tolerance = ToleranceOf(output.dtype);
  const HostTensor got = HostTensor::Copy(
      TensorView::Dense(output.data.data(), output.dtype, output.shape));
  for (int64_t i = 0; i < got.element_count(); ++i) {
    if (Agrees(got.At(i), expected.At(i), tolerance)) continue;
    return absl::DataLossError(
        absl::StrFormat("output element %d is %.9g, expected %.9g", i,
                        got.At(i), expected.At(i)));
  }
  return absl::OkStatus();
}

}  // namespace attn
