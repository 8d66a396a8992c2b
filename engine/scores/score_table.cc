#include "engine/scores/members.h"

namespace attn {

absl::Span<const ScoreEntry> ScoreTable() {
  static const ScoreEntry kTable[] = {
      DotScoreEntry(),
  };
  return kTable;
}

}  // namespace attn
