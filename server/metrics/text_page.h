// The text that Prometheus scrapes (exposition format 0.0.4).
//
//   TextPage page;
//   page.Family("attn_requests_total", "Requests.", MetricKind::kCounter);
//   page.Line("", LabelText({{"code", "OK"}}), uint64_t{3});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "server/metrics/histogram.h"

namespace attn {

enum class MetricKind { kCounter, kGauge, kHistogram, kSummary };

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};

// 'code="OK",method="Attend"'; values are escaped.
std::string LabelText(std::initializer_list<MetricLabel> labels);

// Appends; prometheus-cpp's own writer takes 2 us a line, this one some 50 ns.
// `labels` are as LabelText() has them, or empty. Thread-compatible.
class TextPage {
 public:
  // Begins empty, in the memory of an earlier page.
  explicit TextPage(std::string memory = "") : text_(std::move(memory)) {
    text_.clear();
  }

  // What the lines after it are of.
  void Family(std::string_view name, std::string_view help, MetricKind kind);
  // `suffix` follows the family's name: "_sum".
  void Line(std::string_view suffix, std::string_view labels, double value);
  void Line(std::string_view suffix, std::string_view labels, uint64_t value);
  // Every bucket, sum and count.
  void Lines(std::string_view labels, const Histogram& histogram);
  // A family of one line.
  void Single(std::string_view name, std::string_view help, MetricKind kind,
              double value);

  const std::string& text() const { return text_; }
  // Ends the page, and gives its memory for the next.
  std::string TakeMemory() { return std::move(text_); }

 private:
  void Head(std::string_view suffix, std::string_view labels);

  std::string text_;
  std::string name_;
  std::string bucket_head_;
};

}  // namespace attn
