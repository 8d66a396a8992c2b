// The problem of a backward call.
#pragma once

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/gradients.h"
#include "engine/core/problem.h"

namespace attn {

// As MakeProblem(), and checks what `wanted` says of cotangents and gradients:
// errors name "d_output.shape", "d_output.dtype", "d_lse.shape", "d_lse.dtype",
// "gradients" or "gradient_inputs[1]". Looks at a cotangent only if `wanted`
// says that the call brings it. Gradients are F64 for a call of F64, else F32.
// Whether the stages have gradients is for ValidateGradients()
// (engine/kernels/backward.h).
absl::StatusOr<Problem> MakeBackwardProblem(const AttentionSpec& spec,
                                            const AttentionArgs& args,
                                            const OutputGradients& cotangents,
                                            const GradientSelection& wanted);

}  // namespace attn
