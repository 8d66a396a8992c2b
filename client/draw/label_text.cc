#include "client/draw/label_text.h"

#include <cstddef>
#include <cstdint>

namespace attn {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
// Of the size; digits and most letters of DejaVu Sans are 0.55 to 0.64.
constexpr double kLetterWidth = 0.65;
// From here on scripts whose characters are as wide as high.
constexpr char32_t kFirstWide = 0x1100;

bool MayBeDrawn(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool surrogate = c >= 0xD800 && c < 0xE000;
  return !control && !surrogate && c != 0xFFFE && c != 0xFFFF && c <= 0x10FFFF;
}

// How many bytes a character takes that begins with `lead`; 0: none does.
size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Takes the character at `at`, and moves behind it, or behind one bad byte.
char32_t Take(absl::string_view text, size_t& at) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = LengthOf(lead);
  const size_t begin = at++;
  if (length == 0 || begin + length > text.size()) return kReplacement;
  char32_t c = length == 1 ? lead : lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[begin + i]);
    if ((next & 0xC0U) != 0x80U) return kReplacement;
    c = (c << 6U) | (next & 0x3FU);
  }
  if (c < kLeast[length]) return kReplacement;
  at = begin + length;
  return MayBeDrawn(c) ? c : kReplacement;
}

void Append(char32_t c, std::string& text) {
  const auto byte = [&text](char32_t bits) {
    text += static_cast<char>(static_cast<unsigned char>(bits));
  };
  const auto rest = [&](unsigned shift) {
    byte(0x80U | ((c >> shift) & 0x3FU));
  };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0U | (c >> 6U));
    return rest(0);
  }
  if (c < 0x10000) {
    byte(0xE0U | (c >> 12U));
    rest(6);
    return rest(0);
  }
  byte(0xF0U | (c >> 18U));
  rest(12);
  rest(6);
  rest(0);
}

}  // namespace

double EstimatingRuler::Width(absl::string_view text, int size) const {
  double width = 0;
  for (const char32_t c : CodePoints(text)) {
    width += c < kFirstWide ? kLetterWidth : 1;
  }
  return width * size;
}

std::vector<char32_t> CodePoints(absl::string_view text) {
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) points.push_back(Take(text, at));
  return points;
}

std::string CleanText(absl::string_view text) {
  std::string clean;
  for (const char32_t c : CodePoints(text)) Append(c, clean);
  return clean;
}

std::string FitText(absl::string_view text, double width, int size,
                    const TextRuler& ruler) {
  std::string clean = CleanText(text);
  if (ruler.Width(clean, size) <= width) return clean;
  const std::vector<char32_t> points = CodePoints(clean);
  const auto cut = [&points](size_t length) {
    std::string begin;
    for (size_t i = 0; i < length; ++i) Append(points[i], begin);
    return begin + "…";
  };
  if (ruler.Width(cut(0), size) > width) return "";
  // By halves: a line of a file may be as long as the file.
  size_t fits = 0;
  size_t too_long = points.size();
  while (fits + 1 < too_long) {
    const size_t middle = fits + (too_long - fits) / 2;
    (ruler.Width(cut(middle), size) <= width ? fits : too_long) = middle;
  }
  return cut(fits);
}

}  // namespace attn
