// The gradients of a case that gives q, k and v.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/service.h"

namespace attn {

// Whether the case's output `name` is a gradient: dq, dbias, d_v_weight.
bool IsGradient(const Case& tested, const std::string& name);

// Adds every gradient of the case to `outcome.got`; does nothing for a case
// without. `outputs` is what the service gave of `call`. Skip() for a gradient
// of something that the case does not have.
absl::Status AddGradients(const Case& tested, const ServiceCall& call,
                          const TensorMap& outputs, const Service& service,
                          Outcome& outcome);

}  // namespace attn
