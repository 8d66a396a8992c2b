#include "server/metrics/text_page.h"

#include "server/metrics/number_text.h"

namespace attn {
namespace {

std::string_view WordOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
    case MetricKind::kSummary:
      break;
  }
  return "summary";
}

void AppendEscaped(std::string_view value, std::string& text) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '\\' || c == '"') text += '\\';
      text += c;
    }
  }
}

}  // namespace

std::string LabelText(std::initializer_list<MetricLabel> labels) {
  std::string text;
  for (const MetricLabel& label : labels) {
    if (!text.empty()) text += ',';
    text += label.name;
    text += "=\"";
    AppendEscaped(label.value, text);
    text += '"';
  }
  return text;
}

void TextPage::Family(std::string_view name, std::string_view help,
                      MetricKind kind) {
  name_ = name;
  text_ += "# HELP ";
  text_ += name;
  text_ += ' ';
  text_ += help;
  text_ += "\n# TYPE ";
  text_ += name;
  text_ += ' ';
  text_ += WordOf(kind);
  text_ += '\n';
}

void TextPage::Head(std::string_view suffix, std::string_view labels) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) {
    text_ += '{';
    text_ += labels;
    text_ += '}';
  }
  text_ += ' ';
}

void TextPage::Line(std::string_view suffix, std::string_view labels,
                    double value) {
  Head(suffix, labels);
  AppendNumber(value, text_);
  text_ += '\n';
}

void TextPage::Line(std::string_view suffix, std::string_view labels,
                    uint64_t value) {
  Head(suffix, labels);
  AppendNumber(value, text_);
  text_ += '\n';
}

void TextPage::Lines(std::string_view labels, const Histogram& histogram) {
  bucket_head_ = name_;
  bucket_head_ += "_bucket{";
  bucket_head_ += labels;
  bucket_head_ += labels.empty() ? "le=\"" : ",le=\"";
  uint64_t count = 0;
  for (size_t bucket = 0; bucket <= histogram.bounds().size(); ++bucket) {
    count += histogram.count(bucket);
    text_ += bucket_head_;
    text_ += histogram.bounds().text(bucket);
    text_ += "\"} ";
    AppendNumber(count, text_);
    text_ += '\n';
  }
  Line("_sum", labels, histogram.sum());
  Line("_count", labels, count);
}

void TextPage::Single(std::string_view name, std::string_view help,
                      MetricKind kind, double value) {
  Family(name, help, kind);
  Line("", "", value);
}

}  // namespace attn
