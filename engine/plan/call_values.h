// What a plan cannot know of a call: numbers in tensors that have no meaning.
#pragma once

#include "absl/status/status.h"
#include "engine/core/attention_args.h"
#include "engine/core/problem.h"

namespace attn {

// For a problem that has a plan. INVALID_ARGUMENT names the tensor's field: a
// finite alpha of entmax from 1 on, a position of a row within the lengths that
// its table of angles has. Reads a number for each head and row, no more.
absl::Status CheckCallValues(const Problem& problem, const AttentionArgs& args);

}  // namespace attn
