// The rows of the table of masks, one from each file of this room.
#pragma once

#include "engine/masks/mask.h"

namespace attn {

MaskEntry CausalMaskEntry();
MaskEntry WindowMaskEntry();
MaskEntry DenseMaskEntry();

}  // namespace attn
