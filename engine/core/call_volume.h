// How large a call may be, so that no product of its extents overflows.
#pragma once

#include "absl/status/status.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Elements along one axis, and the product of a tensor's extents above 0: a
// tensor without elements may have others that are large.
inline constexpr int64_t kMaxExtent = int64_t{1} << 40;
inline constexpr int64_t kMaxTensorElements = int64_t{1} << 48;
// Elements of anything that a call forms: as doubles, with room for 2^10 such
// in one sum, their bytes stay below 2^62.
inline constexpr int64_t kMaxFormedElements = int64_t{1} << 49;

// INVALID_ARGUMENT that names "q.shape", "k.shape", "v.shape" or
// "inputs[i].shape" if a tensor exceeds the first two.
absl::Status CheckExtents(const AttentionArgs& args);

// INVALID_ARGUMENT that names the shape to blame if scores, output, prepared
// or projected rows, blocks of rows or linear attention's states exceed the
// third. Extents of 0 count as 1. `args` passed CheckExtents().
absl::Status CheckVolume(const AttentionSpec& spec, const AttentionArgs& args,
                         const AttentionShape& shape);

}  // namespace attn
