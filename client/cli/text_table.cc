#include "client/cli/text_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attn {
namespace {

constexpr char kColumnGap[] = "  ";

bool IsNumber(const std::string& cell) {
  double value = 0;
  return absl::SimpleAtod(cell, &value) || cell == "-";
}

// "1.5 k" steps of `base`.
std::string Scaled(double value, double base,
                   const std::vector<std::string>& units) {
  size_t unit = 0;
  while (std::abs(value) >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  return absl::StrCat(
      whole ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.1f", value),
      " ", units[unit]);
}

}  // namespace

size_t DisplayWidth(const std::string& text) {
  // Continuation bytes of UTF-8 are 10xxxxxx.
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string PadLeft(const std::string& text, size_t width) {
  const size_t used = DisplayWidth(text);
  return std::string(width > used ? width - used : 0, ' ') + text;
}

std::string PadRight(const std::string& text, size_t width) {
  const size_t used = DisplayWidth(text);
  return text + std::string(width > used ? width - used : 0, ' ');
}

TextTable::TextTable(std::vector<std::string> headings) {
  rows_.push_back(std::move(headings));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      if (c > 0) line += kColumnGap;
      line +=
          numeric[c] ? PadLeft(row[c], widths[c]) : PadRight(row[c], widths[c]);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return absl::StrFormat("%.4g", value);
}

std::string FormatBytes(double bytes) {
  return Scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string FormatFlops(double flops) {
  return Scaled(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"});
}

}  // namespace attn
