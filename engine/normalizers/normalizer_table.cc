#include "engine/normalizers/members.h"

namespace attn {

absl::Span<const NormalizerEntry> NormalizerTable() {
  static const NormalizerEntry kTable[] = {
      SoftmaxNormalizerEntry(),
  };
  return kTable;
}

}  // namespace attn
