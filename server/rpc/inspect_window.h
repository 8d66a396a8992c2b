// The part of a call's scores that Inspect returns.
#pragma once

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/score_window.h"
#include "engine/core/shape.h"
#include "proto/codec/schema.h"

namespace attn {

// The window in a call of this shape, every end set. INVALID_ARGUMENT names the
// bound, "window.key.end", where 0 <= begin <= end <= extent does not hold.
absl::StatusOr<ScoreWindow> ResolveWindow(const v1::InspectWindow& window,
                                          const AttentionShape& shape);

// [batch, head, query, key] of a resolved window.
Shape ShapeOf(const ScoreWindow& window);

}  // namespace attn
