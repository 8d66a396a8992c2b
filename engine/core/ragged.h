// Sequences of different lengths, one after the other in one tensor.
#pragma once

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"

namespace attn {

// The extents of a ragged call: q [rows, Hq, d_q], k and v [rows, Hkv, d], with
// offsets of the sequences in the rows of q, and in those of k and v. B is the
// number of sequences, Sq and Sk the longest. Errors name "q.shape",
// "q_offsets", "kv_offsets[2]", "q_lengths", ...: the offsets come both or
// neither, are as many, and ascend from 0 to the number of rows; there are no
// lengths beside them. Does not compare head counts of q and k.
absl::StatusOr<AttentionShape> RaggedShape(const AttentionArgs& args);

}  // namespace attn
