#include "engine/scores/members.h"

namespace attn {

absl::Span<const ScoreEntry> ScoreTable() {
  static const ScoreEntry kTable[] = {
      DotScoreEntry(),      BilinearScoreEntry(),  AdditiveScoreEntry(),
      ConcatScoreEntry(),   TrilinearScoreEntry(), CosineScoreEntry(),
      DistanceScoreEntry(),
  };
  return kTable;
}

}  // namespace attn
