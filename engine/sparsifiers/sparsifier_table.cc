#include "engine/sparsifiers/members.h"

namespace attn {

absl::Span<const SparsifierEntry> SparsifierTable() {
  static const SparsifierEntry kTable[] = {
      TopKSparsifierEntry(),
      ThresholdSparsifierEntry(),
      TopPSparsifierEntry(),
  };
  return kTable;
}

}  // namespace attn
