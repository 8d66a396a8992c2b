// Gradients of a multi-head module by the service, under the case's names.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/module_parts.h"
#include "client/cli/check/service.h"
#include "client/io/tensor_file.h"

namespace attn {

// Adds what the case may ask for ("dq", "d_in_proj_weight", "d_bias_k", ...).
absl::Status AddModuleGradients(const Case& tested, const ModuleCall& module,
                                const Service& service, TensorMap& gradients);

}  // namespace attn
