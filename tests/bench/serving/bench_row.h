// What one row of the serving benchmark found, and how it is shown.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tests/bench/serving/rounds.h"

namespace attn {

// What a figure should be. Nothing fails if it is not.
struct FigureGoal {
  enum class Side { kAtMost, kAtLeast };

  Side side = Side::kAtMost;
  double bound = 0;

  bool Met(double value) const {
    return side == Side::kAtMost ? value <= bound : value >= bound;
  }
};

struct BenchFigure {
  std::string what;
  double value = 0;
  std::string unit;
  std::optional<FigureGoal> goal;
};

// A value; thread-compatible.
struct BenchRow {
  BenchRow(std::string row_name, std::string row_title)
      : name(std::move(row_name)), title(std::move(row_title)) {}

  std::string name;
  // What is compared, in a line.
  std::string title;
  std::vector<BenchFigure> figures;
  // What was measured, so that every figure can be worked out again.
  std::vector<BenchSeries> series;
  // Why there are no figures; empty if there are.
  std::string skipped;

  void Add(std::string what, double value, std::string unit);
  void AddAtMost(std::string what, double value, std::string unit,
                 double bound);
  void AddAtLeast(std::string what, double value, std::string unit,
                  double bound);
};

// For people: a block of lines for each row.
std::string ToText(const BenchRow& row);
// For programs: {"rows": [...]}.
nlohmann::ordered_json ToJson(const std::vector<BenchRow>& rows);
// For README.md: the figures that have goals, as a table.
std::string ToMarkdown(const std::vector<BenchRow>& rows);

}  // namespace attn
