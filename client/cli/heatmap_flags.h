// The flags of `attn heatmap` that say what to draw, and how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/seen_scores.h"
#include "client/draw/panel_grid.h"
#include "engine/core/attention_args.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct HeatmapFlags {
  std::string output;
  int64_t batch = 0;
  std::string heads;
  std::string rows = ":";
  std::string columns = ":";
  std::string what = "both";
  std::string pool = "max";
  // Ends of the scales; absent: what is seen.
  std::optional<double> max_weight;
  std::optional<double> max_logit;
  std::string tokens;
  std::string query_tokens;
  std::string key_tokens;
  // Absent: the input file's name.
  std::optional<std::string> title;
  std::string font;
  FigureSize size;
};

void AddHeatmapFlags(CLI::App& command, HeatmapFlags& flags);

// "0,2,5-7" of `count` heads, ascending. Empty: all, but no more than
// kMostHeads. INVALID_ARGUMENT names --heads.
inline constexpr int64_t kMostHeads = 16;
absl::StatusOr<std::vector<int64_t>> ParseHeads(const std::string& text,
                                                int64_t count);

// What to ask of a call of this shape; the steps are left at 1.
// INVALID_ARGUMENT names the flag.
absl::StatusOr<ScoreQuestion> ReadScoreQuestion(const HeatmapFlags& flags,
                                                const AttentionShape& shape);

enum class FigureKind { kTerminal, kPng, kSvg };

// By the ending of --output.
absl::StatusOr<FigureKind> KindOfOutput(const std::string& path);

// Names of queries and keys by index; may be shorter than they are many.
struct TokenNames {
  std::vector<std::string> queries;
  std::vector<std::string> keys;
};

// Reads the files. --tokens names the keys, and the queries as the last of
// their positions. INVALID_ARGUMENT if there are more names than indices.
absl::StatusOr<TokenNames> ReadTokenNames(const HeatmapFlags& flags,
                                          const AttentionShape& shape);

}  // namespace attn
