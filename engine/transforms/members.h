// The rows of the table of transforms, one from each file of this room.
#pragma once

#include "engine/transforms/transform.h"

namespace attn {

TransformEntry RotaryTransformEntry();
TransformEntry NormTransformEntry();

// Whether a transform with this target changes rows of `side`.
inline bool TargetCovers(TransformTarget target, Side side) {
  return target == TransformTarget::kBoth ||
         (target == TransformTarget::kQuery) == (side == Side::kQuery);
}

// "" for both sides, else "q" or "k".
const char* TargetName(TransformTarget target);

}  // namespace attn
