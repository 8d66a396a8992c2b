#include "engine/masks/members.h"

namespace attn {

absl::Span<const MaskEntry> MaskTable() {
  static const MaskEntry kTable[] = {
      CausalMaskEntry(),
      WindowMaskEntry(),
      DenseMaskEntry(),
  };
  return kTable;
}

}  // namespace attn
