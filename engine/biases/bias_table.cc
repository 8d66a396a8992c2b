#include "engine/biases/members.h"

namespace attn {

absl::Span<const BiasEntry> BiasTable() {
  static const BiasEntry table[] = {
      DenseBiasEntry(),
      AlibiBiasEntry(),
  };
  return table;
}

}  // namespace attn
