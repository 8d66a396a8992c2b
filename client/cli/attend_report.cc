#include "client/cli/attend_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"
#include "client/io/json_tensor.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr int64_t kFirstValues = 8;
constexpr double kMicro = 1e3;  // nanoseconds

struct Summary {
  double mean = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  int64_t nonfinite = 0;
};

// Over the finite elements.
Summary Summarize(const HostTensor& tensor) {
  Summary summary;
  int64_t finite = 0;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    const double value = tensor.At(i);
    if (!std::isfinite(value)) {
      ++summary.nonfinite;
      continue;
    }
    ++finite;
    summary.mean += (value - summary.mean) / static_cast<double>(finite);
    summary.low = std::min(summary.low, value);
    summary.high = std::max(summary.high, value);
  }
  return summary;
}

std::string KeyName(int64_t key, const std::vector<std::string>& tokens) {
  if (key < 0) return "-";
  if (key < static_cast<int64_t>(tokens.size())) {
    return absl::StrCat(key, " ", tokens[static_cast<size_t>(key)]);
  }
  return absl::StrCat(key);
}

const char* VerdictOf(const v1::HeadStatistics& head) {
  switch (head.dead()) {
    case v1::DEAD_HEAD_UNSPECIFIED:
      return "";
    case v1::DEAD_HEAD_COLLAPSED:
      return "collapsed";
    case v1::DEAD_HEAD_UNINFORMATIVE:
      return "uninformative";
    case v1::DEAD_HEAD_CONSTANT_LOGITS:
      return "constant";
    default:
      return "dead";
  }
}

std::vector<std::string> Labels(int64_t count, int64_t all,
                                const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    // Queries are the last of the keys' positions if there are fewer.
    const int64_t position = std::max<int64_t>(0, i + all - count);
    labels.push_back(
        position < static_cast<int64_t>(tokens.size())
            ? absl::StrCat(tokens[static_cast<size_t>(position)], " ", i)
            : absl::StrCat(i));
  }
  return labels;
}

// One [Sq, Sk] matrix of a [B, Hq, Sq, Sk] tensor.
struct Matrix {
  int64_t rows;
  int64_t columns;
  std::vector<double> values;
};

absl::StatusOr<Matrix> HeadOf(const AttendResult& result,
                              const std::string& name,
                              const HeadChoice& choice) {
  const auto tensor = OutputOf(result, name);
  if (!tensor.ok()) return tensor.status();
  const Shape& shape = tensor->shape();
  if (shape.rank() != 4) return absl::InternalError("rank of the response");
  if (choice.batch < 0 || choice.batch >= shape[0] || choice.head < 0 ||
      choice.head >= shape[1]) {
    return FieldError(
        "--head", absl::StrCat("batch ", choice.batch, " head ", choice.head),
        absl::StrCat("below batch ", shape[0], " and head ", shape[1]));
  }
  Matrix matrix{.rows = shape[2], .columns = shape[3], .values = {}};
  const int64_t size = matrix.rows * matrix.columns;
  const int64_t start = (choice.batch * shape[1] + choice.head) * size;
  for (int64_t i = 0; i < size; ++i) {
    matrix.values.push_back(tensor->At(start + i));
  }
  return matrix;
}

}  // namespace

std::string DescribeTensor(const std::string& name, const HostTensor& tensor) {
  const Summary summary = Summarize(tensor);
  std::string text = absl::StrCat(name, "  ", std::string(Name(tensor.dtype())),
                                  " ", tensor.shape().ToString());
  if (tensor.element_count() == summary.nonfinite) {
    return absl::StrCat(text, "  no finite value\n");
  }
  absl::StrAppend(&text, "  mean ", FormatNumber(summary.mean), "  min ",
                  FormatNumber(summary.low), "  max ",
                  FormatNumber(summary.high));
  if (summary.nonfinite > 0) {
    absl::StrAppend(&text, "  not finite ", summary.nonfinite);
  }
  absl::StrAppend(&text, "\n  first");
  for (int64_t i = 0; i < std::min(kFirstValues, tensor.element_count()); ++i) {
    absl::StrAppend(&text, " ", FormatNumber(tensor.At(i)));
  }
  return text + "\n";
}

nlohmann::json SummaryToJson(const HostTensor& tensor) {
  const Summary summary = Summarize(tensor);
  const absl::Span<const int64_t> dims = tensor.shape().dims();
  return {{"dtype", std::string(Name(tensor.dtype()))},
          {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
          {"mean", NumberToJson(summary.mean)},
          {"min", NumberToJson(summary.low)},
          {"max", NumberToJson(summary.high)},
          {"nonfinite", summary.nonfinite}};
}

std::string DescribeReport(const v1::CallReport& report) {
  const v1::Timings& timings = report.timings();
  std::string text = absl::StrFormat(
      "kernel %s  scale %s  queued %.0f us  computed %.0f us\npipeline %s\n",
      report.kernel(), FormatNumber(report.effective_scale()),
      static_cast<double>(timings.queue_ns()) / kMicro,
      static_cast<double>(timings.compute_ns()) / kMicro, report.pipeline());
  if (report.nonfinite_outputs() > 0) {
    absl::StrAppend(&text, "note: ", report.nonfinite_outputs(),
                    " not finite in the output\n");
  }
  for (const v1::Warning& warning : report.warnings()) {
    absl::StrAppend(&text, "warning: ", warning.message(), "\n");
  }
  return text;
}

std::string DescribeHeads(
    const google::protobuf::RepeatedPtrField<v1::HeadStatistics>& heads,
    const std::vector<std::string>& tokens) {
  TextTable table({"batch", "head", "entropy", "share", "keys", "of", "peak",
                   "top key", "of rows", "saturated", "logits", "+-", "|w||v|",
                   "verdict"});
  std::string evidence;
  for (const v1::HeadStatistics& head : heads) {
    table.AddRow({absl::StrCat(head.batch()), absl::StrCat(head.head()),
                  absl::StrFormat("%.4f", head.mean_entropy()),
                  absl::StrFormat("%.3f", head.mean_entropy_ratio()),
                  absl::StrFormat("%.1f", head.mean_effective_keys()),
                  absl::StrFormat("%.1f", head.mean_visible_keys()),
                  absl::StrFormat("%.3f", head.mean_peak_weight()),
                  KeyName(head.top_key(), tokens),
                  absl::StrFormat("%.0f%%", 100 * head.top_key_share()),
                  absl::StrFormat("%.0f%%", 100 * head.saturated_share()),
                  absl::StrFormat("%.3g", head.logit_mean()),
                  absl::StrFormat("%.3g", head.logit_std()),
                  absl::StrFormat("%.3g", head.mean_contribution()),
                  VerdictOf(head)});
    if (head.dead() == v1::DEAD_HEAD_UNSPECIFIED) continue;
    absl::StrAppend(&evidence, "batch ", head.batch(), " head ", head.head(),
                    " is dead: ", head.dead_reason(), "\n");
  }
  return table.ToString() + evidence;
}

absl::StatusOr<std::string> DrawHead(const AttendResult& result,
                                     const HeadChoice& choice,
                                     const std::vector<std::string>& tokens,
                                     const HeatMapOptions& options) {
  const auto logits = HeadOf(result, "masked_logits", choice);
  if (!logits.ok()) return logits.status();
  const auto weights = HeadOf(result, "weights", choice);
  if (!weights.ok()) return weights.status();
  std::vector<bool> visible;
  for (const double logit : logits->values) {
    visible.push_back(logit != -std::numeric_limits<double>::infinity());
  }
  const std::vector<HeatMapPanel> panels = {
      {.title = "final logits", .values = logits->values, .visible = &visible},
      {.title = "weights", .values = weights->values, .visible = &visible},
  };
  return absl::StrCat(
      "batch ", choice.batch, " head ", choice.head,
      ": queries down, keys across\n",
      RenderHeatMap(panels, Labels(logits->rows, logits->columns, tokens),
                    Labels(logits->columns, logits->columns, tokens), options));
}

std::string DescribeComparison(const NamedComparison& named) {
  const Comparison& comparison = named.comparison;
  std::string text =
      absl::StrFormat("%s: max difference %.3g over %d elements: ", named.name,
                      comparison.max_difference, comparison.elements);
  if (!comparison.worst.has_value()) return text + "matches\n";
  const WorstElement& worst = *comparison.worst;
  absl::StrAppendFormat(
      &text, "%d differ; worst at %s: got %.9g, want %.9g, allowed %.3g\n",
      comparison.mismatches, worst.index, worst.got, worst.want, worst.allowed);
  return text;
}

nlohmann::json AttendToJson(const AttendResult& result,
                            const std::vector<NamedComparison>& comparisons) {
  nlohmann::json outputs = nlohmann::json::object();
  for (const std::string& name : OutputNames()) {
    const auto tensor = OutputOf(result, name);
    if (!tensor.ok()) continue;
    outputs[name] = SummaryToJson(*tensor);
  }
  nlohmann::json heads = nlohmann::json::array();
  for (const v1::HeadStatistics& head : result.header.head_statistics()) {
    heads.push_back(ToJson(head));
  }
  nlohmann::json document = {{"report", ToJson(result.header.report())},
                             {"outputs", outputs},
                             {"heads", heads}};
  for (const NamedComparison& named : comparisons) {
    document["comparisons"][named.name] = {
        {"max_difference", NumberToJson(named.comparison.max_difference)},
        {"mismatches", named.comparison.mismatches},
        {"matches", named.comparison.mismatches == 0}};
  }
  return document;
}

}  // namespace attn
