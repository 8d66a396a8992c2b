#include "engine/biases/members.h"

namespace attn {

absl::Span<const BiasEntry> BiasTable() {
  static const BiasEntry kTable[] = {
      DenseBiasEntry(),
      AlibiBiasEntry(),
  };
  return kTable;
}

}  // namespace attn
