#include "engine/masks/members.h"

namespace attn {

absl::Span<const MaskEntry> MaskTable() {
  static const MaskEntry table[] = {
      CausalMaskEntry(),
      WindowMaskEntry(),
      DenseMaskEntry(),
  };
  return table;
}

}  // namespace attn
