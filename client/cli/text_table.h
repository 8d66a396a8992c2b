// Columns of text that line up.
#pragma once

#include <string>
#include <vector>

namespace attn {

// Columns in terminal cells that `text` takes; UTF-8, one for each code point.
size_t DisplayWidth(const std::string& text);

// `text` with blanks before it (or behind it) up to `width` columns.
std::string PadLeft(const std::string& text, size_t width);
std::string PadRight(const std::string& text, size_t width);

// A heading and rows. Columns of numbers stand right, others left.
// Thread-compatible.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);

  // As many cells as headings.
  void AddRow(std::vector<std::string> cells);

  // Lines that end in "\n", without trailing blanks.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Short and fixed: FormatNumber(0.123456) == "0.1235"; "inf", "-inf", "nan".
std::string FormatNumber(double value);
// "1.5 KiB", "12 B"
std::string FormatBytes(double bytes);
// "1.2 GFLOP", "300 FLOP"
std::string FormatFlops(double flops);

}  // namespace attn
