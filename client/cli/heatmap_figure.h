// What a server showed, as a figure, as text and as JSON.
#pragma once

#include <optional>
#include <string>

#include "client/cli/heatmap_flags.h"
#include "client/cli/seen_scores.h"
#include "client/draw/attention_figure.h"
#include "nlohmann/json.hpp"

namespace attn {

// Where the colours end, if not with the values.
struct ScaleLimits {
  std::optional<double> weight{};
  std::optional<double> logit{};
};

// Logits on a diverging scale around 0, weights on a sequential one from 0 (or
// likewise diverging, where some are negative); one scale for all heads.
AttentionFigure MakeFigure(const SeenScores& seen,
                           const ScoreQuestion& question,
                           const TokenNames& names, const ScaleLimits& limits);

// Head by head, for a terminal.
std::string FigureToText(const AttentionFigure& figure, bool colour);

// Axes, heads, and of each kind of panel the range of its finite values, the
// ends of its scale, and how many cells are masked or not finite.
nlohmann::json FigureToJson(const AttentionFigure& figure,
                            const ScoreQuestion& question);

// "logits -3.1 to 2.7, weights 0 to 0.98; 28 of 128 cells masked"
std::string DescribeFigure(const AttentionFigure& figure);

}  // namespace attn
