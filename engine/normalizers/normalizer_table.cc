#include "engine/normalizers/members.h"

namespace attn {

absl::Span<const NormalizerEntry> NormalizerTable() {
  static const NormalizerEntry table[] = {
      SoftmaxNormalizerEntry(),
  };
  return table;
}

}  // namespace attn
