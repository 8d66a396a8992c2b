// The rows of the table of scores, one from each file of this room.
#pragma once

#include "engine/scores/score.h"

namespace attn {

ScoreEntry DotScoreEntry();
ScoreEntry BilinearScoreEntry();
ScoreEntry AdditiveScoreEntry();
ScoreEntry ConcatScoreEntry();
ScoreEntry TrilinearScoreEntry();
ScoreEntry CosineScoreEntry();
ScoreEntry DistanceScoreEntry();

}  // namespace attn
