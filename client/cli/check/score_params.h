// The score of a case.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"

namespace attn {

// params.score with the weights that come as inputs. Skip() for a score that
// the wire cannot say.
absl::Status ApplyScore(const Case& tested, ServiceCall& call);

}  // namespace attn
