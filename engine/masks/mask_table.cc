#include "engine/masks/members.h"

namespace attn {

absl::Span<const MaskEntry> MaskTable() {
  static const MaskEntry kTable[] = {
      CausalMaskEntry(),    WindowMaskEntry(),  DenseMaskEntry(),
      PrefixMaskEntry(),    SegmentMaskEntry(), BlockSparseMaskEntry(),
      GlobalMaskEntry(),    DilatedMaskEntry(), StridedMaskEntry(),
      FixedMaskEntry(),     BigBirdMaskEntry(), LongformerMaskEntry(),
      StreamingMaskEntry(), AnyOfMaskEntry(),   ProgramMaskEntry(),
  };
  return kTable;
}

}  // namespace attn
