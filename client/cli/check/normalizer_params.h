// What a case does to its final logits: normalizer, sink, sparsity, dropout.
#pragma once

#include "absl/status/status.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"

namespace attn {

// params.normalizer and params.sink. Skip() for what the wire cannot say.
absl::Status ApplyNormalizer(const Case& tested, ServiceCall& call);

// params.sparsity, with the given rule for equal logits.
absl::Status ApplySparsity(const Case& tested, TieRule ties, ServiceCall& call);

// params.dropout with the keep mask that comes as an input.
absl::Status ApplyDropout(const Case& tested, ServiceCall& call);

}  // namespace attn
