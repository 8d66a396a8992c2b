// Puts attention over parts of the keys together again.
#pragma once

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"

namespace attn {

// Attention of the same queries over disjoint sets of keys, as `output` and
// `lse` of one call for each.
struct MergedAttention {
  HostTensor output;  // [..., D], dtype of the parts
  HostTensor lse;     // [...]
};

// outputs [P, ..., D] and lses [P, ...] of P >= 1 parts, F32 or F64 alike.
// Exact up to rounding, in double: lse = ln sum_p exp(lse_p), output =
// sum_p exp(lse_p - lse) output_p. (0, -inf) is the identity; parts that are
// all empty give (0, -inf). What an empty part holds is not read.
absl::StatusOr<MergedAttention> MergePartials(const HostTensor& outputs,
                                              const HostTensor& lses);

// Sink logits [Hq] or [Hq, n] join the softmax of merged rows, lse [..., Hq,
// Sq]: once, after merging, for the parts were computed without. Scales
// merged.output; gives lse_with_sink, while merged.lse stays that of the keys.
absl::StatusOr<HostTensor> JoinSinks(const HostTensor& sinks,
                                     MergedAttention& merged);

}  // namespace attn
