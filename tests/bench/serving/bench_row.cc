#include "tests/bench/serving/bench_row.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using Side = FigureGoal::Side;

// Three digits of what is small, no digits after the point of what is large.
std::string Number(double value) {
  constexpr double kLarge = 1000;
  return value >= kLarge ? absl::StrFormat("%.0f", value)
                         : absl::StrFormat("%.3g", value);
}

std::string WithUnit(double value, const std::string& unit) {
  return unit.empty() ? Number(value) : absl::StrCat(Number(value), " ", unit);
}

std::string GoalText(const BenchFigure& figure) {
  return absl::StrCat(figure.goal->side == Side::kAtMost ? "<= " : ">= ",
                      WithUnit(figure.goal->bound, figure.unit));
}

const char* Verdict(const BenchFigure& figure) {
  return figure.goal->Met(figure.value) ? "met" : "missed";
}

nlohmann::ordered_json ToJson(const BenchFigure& figure) {
  nlohmann::ordered_json json = {
      {"what", figure.what}, {"value", figure.value}, {"unit", figure.unit}};
  if (figure.goal) {
    json["goal"] = {
        {figure.goal->side == Side::kAtMost ? "at_most" : "at_least",
         figure.goal->bound}};
    json["met"] = figure.goal->Met(figure.value);
  }
  return json;
}

}  // namespace

void BenchRow::Add(std::string what, double value, std::string unit) {
  figures.push_back({std::move(what), value, std::move(unit), std::nullopt});
}

void BenchRow::AddAtMost(std::string what, double value, std::string unit,
                         double bound) {
  figures.push_back({std::move(what), value, std::move(unit),
                     FigureGoal{Side::kAtMost, bound}});
}

void BenchRow::AddAtLeast(std::string what, double value, std::string unit,
                          double bound) {
  figures.push_back({std::move(what), value, std::move(unit),
                     FigureGoal{Side::kAtLeast, bound}});
}

std::string ToText(const BenchRow& row) {
  std::string text = absl::StrCat("== ", row.name, ": ", row.title, "\n");
  if (!row.skipped.empty()) {
    absl::StrAppend(&text, "SKIPPED: ", row.skipped, "\n");
  }
  for (const BenchFigure& figure : row.figures) {
    absl::StrAppendFormat(&text, "%-58s %9s %-10s", figure.what,
                          Number(figure.value), figure.unit);
    if (figure.goal) {
      absl::StrAppend(&text, " goal ", GoalText(figure), ", ", Verdict(figure));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

nlohmann::ordered_json ToJson(const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json entry = {{"name", row.name}, {"title", row.title}};
    if (!row.skipped.empty()) entry["skipped"] = row.skipped;
    entry["figures"] = nlohmann::ordered_json::array();
    for (const BenchFigure& figure : row.figures) {
      entry["figures"].push_back(ToJson(figure));
    }
    for (const BenchSeries& series : row.series) {
      entry["rounds"][series.name] = series.values;
    }
    json["rows"].push_back(std::move(entry));
  }
  return json;
}

std::string ToMarkdown(const std::vector<BenchRow>& rows) {
  std::string text = "| row | | measured | goal |\n|---|---|---|---|\n";
  for (const BenchRow& row : rows) {
    for (const BenchFigure& figure : row.figures) {
      if (!figure.goal) continue;
      absl::StrAppend(&text, "| `", row.name, "` | ",
                      absl::StripLeadingAsciiWhitespace(figure.what), " | ",
                      WithUnit(figure.value, figure.unit), " | ",
                      GoalText(figure), " |\n");
    }
  }
  return text;
}

}  // namespace attn
