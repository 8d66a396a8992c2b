// Parameters of a case that gives q, k and v.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"

namespace attn {

// Turns every parameter into its stage. The call has its q, k and v. Skip()
// for a parameter that the wire cannot say.
absl::Status ApplyParams(const Case& tested, ServiceCall& call);

}  // namespace attn
