#include "engine/biases/members.h"

namespace attn {

absl::Span<const BiasEntry> BiasTable() {
  static const BiasEntry kTable[] = {
      DenseBiasEntry(),
      AlibiBiasEntry(),
      RelativeTableBiasEntry(),
      T5BiasEntry(),
      ContinuousPositionBiasEntry(),
      ConstantBiasEntry(),
  };
  return kTable;
}

}  // namespace attn
