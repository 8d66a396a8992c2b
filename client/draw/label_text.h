// Text from outside, made fit to draw.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

// How wide text is.
class TextRuler {
 public:
  virtual ~TextRuler() = default;

  // Pixels of one line of clean text of `size` pixels.
  virtual double Width(absl::string_view text, int size) const = 0;
};

// Where no font is at hand: no narrower than sans-serif fonts are.
// Thread-safe.
class EstimatingRuler : public TextRuler {
 public:
  double Width(absl::string_view text, int size) const override;
};

// The characters of `text`. What is no UTF-8, and what neither XML nor a line
// of a figure may hold (controls, surrogates, U+FFFE, U+FFFF), is U+FFFD.
std::vector<char32_t> CodePoints(absl::string_view text);

// The same as UTF-8.
std::string CleanText(absl::string_view text);

// Clean text that is no wider than `width`: cut, with an ellipsis, if need be.
std::string FitText(absl::string_view text, double width, int size,
                    const TextRuler& ruler);

}  // namespace attn
