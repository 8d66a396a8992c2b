#include "engine/scores/members.h"

namespace attn {

absl::Span<const ScoreEntry> ScoreTable() {
  static const ScoreEntry table[] = {
      DotScoreEntry(),
  };
  return table;
}

}  // namespace attn
