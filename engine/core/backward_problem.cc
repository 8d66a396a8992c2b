#include "engine/core/backward_problem.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

absl::Status CheckCotangent(const TensorView& tensor, const Shape& shape,
                            absl::string_view field) {
  if (tensor.shape == shape) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".shape"), tensor.shape.ToString(),
                    shape.ToString());
}

absl::Status CheckCotangents(const Problem& problem,
                             const OutputGradients& cotangents,
                             const GradientSelection& wanted) {
  if (!wanted.any()) {
    return FieldError("d_output", "neither d_output nor d_lse",
                      "at least one of the two");
  }
  if (wanted.from_output) {
    absl::Status status =
        CheckCotangent(cotangents.output, problem.OutputShape(), "d_output");
    if (!status.ok()) return status;
    if (!IsFloat(cotangents.output.dtype)) {
      return FieldError("d_output.dtype", Name(cotangents.output.dtype),
                        "F32, F16, BF16 or F64");
    }
  }
  if (!wanted.from_lse) return absl::OkStatus();
  const AttentionShape& shape = problem.shape;
  const Shape expected = {shape.batch, shape.q_heads, shape.q_length};
  absl::Status status = CheckCotangent(cotangents.lse, expected, "d_lse");
  if (!status.ok()) return status;
  const DType dtype = cotangents.lse.dtype;
  if (dtype == DType::kF32 || dtype == DType::kF64) return absl::OkStatus();
  return FieldError("d_lse.dtype", Name(dtype), "F32 or F64");
}

absl::Status CheckInputs(const AttentionArgs& args,
                         const GradientSelection& wanted) {
  for (size_t i = 0; i < wanted.inputs.size(); ++i) {
    const std::string field = absl::StrCat("gradient_inputs[", i, "]");
    const uint32_t input = wanted.inputs[i];
    if (input >= args.inputs.size()) {
      return FieldError(
          field, absl::StrCat(input),
          absl::StrCat("the index of one of ", args.inputs.size(), " inputs"));
    }
    if (i > 0 && input <= wanted.inputs[i - 1]) {
      return FieldError(field, absl::StrCat(input),
                        absl::StrCat("above ", wanted.inputs[i - 1],
                                     ": ascending, each once"));
    }
    const DType dtype = args.inputs[input].dtype;
    if (!IsFloat(dtype)) {
      return FieldError(field,
                        absl::StrCat(input, ", a tensor of ", Name(dtype)),
                        "a float tensor: others have no gradient");
    }
  }
  return absl::OkStatus();
}

// Integer keys and values are numbers read off a grid: no gradient.
absl::Status CheckFloat(const TensorView& tensor, absl::string_view field) {
  if (IsFloat(tensor.dtype)) return absl::OkStatus();
  return FieldError(field, Name(tensor.dtype),
                    "F32, F16, BF16 or F64: others have no gradient");
}

}  // namespace

absl::StatusOr<Problem> MakeBackwardProblem(const AttentionSpec& spec,
                                            const AttentionArgs& args,
                                            const OutputGradients& cotangents,
                                            const GradientSelection& wanted) {
  if (wanted.v && MakesValues(spec)) {
    return FieldError("gradients", "the gradient of v",
                      "none of v: spec.projections.latent makes it of k");
  }
  for (const absl::Status& status :
       {CheckFloat(args.q, "q.dtype"), CheckFloat(args.k, "k.dtype"),
        CheckFloat(args.v, "v.dtype")}) {
    if (!status.ok()) return status;
  }
  const DType dtype = args.q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  OutputSelection outputs;
  outputs.output = false;
  absl::StatusOr<Problem> problem =
      MakeProblem(spec, args, outputs, dtype, /*kernel=*/"");
  if (!problem.ok()) return problem;
  for (const absl::Status& status :
       {CheckCotangents(*problem, cotangents, wanted),
        CheckInputs(args, wanted)}) {
    if (!status.ok()) return status;
  }
  problem->gradients = wanted;
  return problem;
}

}  // namespace attn
