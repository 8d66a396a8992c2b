#include "engine/normalizers/members.h"

namespace attn {

absl::Span<const NormalizerEntry> NormalizerTable() {
  static const NormalizerEntry kTable[] = {
      SoftmaxNormalizerEntry(),   SoftmaxPlusNormalizerEntry(),
      SparsemaxNormalizerEntry(), EntmaxNormalizerEntry(),
      SigmoidNormalizerEntry(),   ReluNormalizerEntry(),
      DivisiveNormalizerEntry(),  HardNormalizerEntry(),
      LocalNormalizerEntry(),     IdentityNormalizerEntry(),
      LinearNormalizerEntry(),
  };
  return kTable;
}

}  // namespace attn
