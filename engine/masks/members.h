// The rows of the table of masks, one from each file of this room.
#pragma once

#include "engine/masks/mask.h"

namespace attn {

MaskEntry CausalMaskEntry();
MaskEntry WindowMaskEntry();
MaskEntry DenseMaskEntry();
MaskEntry PrefixMaskEntry();
MaskEntry SegmentMaskEntry();
MaskEntry BlockSparseMaskEntry();
MaskEntry GlobalMaskEntry();
MaskEntry DilatedMaskEntry();
MaskEntry StridedMaskEntry();
MaskEntry FixedMaskEntry();
MaskEntry BigBirdMaskEntry();
MaskEntry LongformerMaskEntry();
MaskEntry StreamingMaskEntry();
MaskEntry AnyOfMaskEntry();
MaskEntry ProgramMaskEntry();

}  // namespace attn
