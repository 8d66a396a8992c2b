#include "client/cli/inspect_report.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"
#include "client/library/inspection.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// One [rows, columns] plane of a view, and what of it is visible.
struct Plane {
  std::string title;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;
  std::vector<bool> visible;
};

absl::StatusOr<Plane> PlaneOf(const InspectResult& result,
                              const std::string& name,
                              const InspectQuestion& question,
                              const InspectDrawing& drawing) {
  const auto tensor = ViewOf(result, name);
  if (!tensor.ok()) return tensor.status();
  const Shape& shape = tensor->shape();
  const int64_t batch = drawing.batch - question.window.batch().begin();
  const int64_t head = drawing.head - question.window.head().begin();
  if (batch < 0 || batch >= shape[0] || head < 0 || head >= shape[1]) {
    return FieldError(
        "--head", absl::StrCat("batch ", drawing.batch, " head ", drawing.head),
        "a head within --part");
  }
  Plane plane;
  plane.title = name;
  plane.rows = shape[2];
  plane.columns = shape[3];
  const int64_t size = plane.rows * plane.columns;
  for (int64_t i = 0; i < size; ++i) {
    const double value = tensor->At((batch * shape[1] + head) * size + i);
    plane.values.push_back(value);
    plane.visible.push_back(!std::isnan(value) &&
                            value != -std::numeric_limits<double>::infinity());
  }
  return plane;
}

// "3 the" for the rows or columns from `begin` on, `step` apart.
std::vector<std::string> WindowLabels(int64_t count, int64_t begin,
                                      int64_t step, int64_t token_offset,
                                      const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = begin + i * step;
    const int64_t token = index + token_offset;
    const bool named =
        token >= 0 && token < static_cast<int64_t>(tokens.size());
    labels.push_back(
        named ? absl::StrCat(tokens[static_cast<size_t>(token)], " ", index)
              : absl::StrCat(index));
  }
  return labels;
}

// Means over the heads at one temperature.
void AddPoint(const v1::TemperaturePoint& point, TextTable& table) {
  double entropy = 0;
  double keys = 0;
  double peak = 0;
  double saturated = 0;
  int64_t dead = 0;
  const auto count =
      static_cast<double>(std::max(point.head_statistics_size(), 1));
  for (const v1::HeadStatistics& head : point.head_statistics()) {
    entropy += head.mean_entropy() / count;
    keys += head.mean_effective_keys() / count;
    peak += head.mean_peak_weight() / count;
    saturated += head.saturated_share() / count;
    dead += head.dead() == v1::DEAD_HEAD_UNSPECIFIED ? 0 : 1;
  }
  table.AddRow(
      {FormatNumber(point.temperature()), absl::StrFormat("%.4f", entropy),
       absl::StrFormat("%.1f", keys), absl::StrFormat("%.3f", peak),
       absl::StrFormat("%.0f%%", 100 * saturated), absl::StrCat(dead)});
}

}  // namespace

absl::StatusOr<std::string> DrawViews(const InspectResult& result,
                                      const InspectQuestion& question,
                                      const InspectDrawing& drawing,
                                      const HeatMapOptions& options) {
  std::vector<Plane> planes;
  for (const std::string& name : drawing.names) {
    auto plane = PlaneOf(result, name, question, drawing);
    if (!plane.ok()) return plane.status();
    planes.push_back(*std::move(plane));
  }
  if (planes.empty()) return std::string();
  // Final logits know what is masked, if they were not pooled.
  const auto masked = question.tiles
                          ? absl::StatusOr<Plane>(absl::NotFoundError(""))
                          : PlaneOf(result, "masked_logits", question, drawing);
  std::vector<HeatMapPanel> panels;
  for (const Plane& plane : planes) {
    panels.push_back(
        {.title = plane.title,
         .values = plane.values,
         .visible = masked.ok() ? &masked->visible : &plane.visible});
  }
  const bool tiled = question.tiles.has_value();
  const Plane& first = planes[0];
  return absl::StrCat(
      "batch ", drawing.batch, " head ", drawing.head,
      tiled ? ": tiles of queries down, of keys across\n"
            : ": queries down, keys across\n",
      RenderHeatMap(panels,
                    WindowLabels(first.rows, question.window.query().begin(),
                                 tiled ? question.tiles->query_tile() : 1,
                                 drawing.query_offset, drawing.tokens),
                    WindowLabels(first.columns, question.window.key().begin(),
                                 tiled ? question.tiles->key_tile() : 1, 0,
                                 drawing.tokens),
                    options));
}

std::string DescribeSweep(const v1::InspectResponse& header) {
  if (header.sweep().empty()) return "";
  TextTable table(
      {"temperature", "entropy", "keys", "peak", "saturated", "dead heads"});
  for (const v1::TemperaturePoint& point : header.sweep()) {
    AddPoint(point, table);
  }
  return table.ToString();
}

nlohmann::json InspectToJson(const InspectResult& result) {
  nlohmann::json heads = nlohmann::json::array();
  for (const v1::HeadStatistics& head : result.header.head_statistics()) {
    heads.push_back(ToJson(head));
  }
  nlohmann::json sweep = nlohmann::json::array();
  for (const v1::TemperaturePoint& point : result.header.sweep()) {
    sweep.push_back(ToJson(point));
  }
  nlohmann::json views = nlohmann::json::object();
  for (const std::string& name : ViewNames()) {
    const auto tensor = ViewOf(result, name);
    if (!tensor.ok()) continue;
    const absl::Span<const int64_t> dims = tensor->shape().dims();
    views[name] = {{"dtype", std::string(Name(tensor->dtype()))},
                   {"shape", std::vector<int64_t>(dims.begin(), dims.end())}};
  }
  return {{"report", ToJson(result.header.report())},
          {"heads", heads},
          {"sweep", sweep},
          {"views", views}};
}

}  // namespace attn
