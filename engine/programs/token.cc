#include "engine/programs/token.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

bool StartsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsInName(char c) { return StartsName(c) || absl::ascii_isdigit(c); }

// The first byte from `at` on that `belongs` does not hold for.
template <typename Belongs>
size_t EndOf(absl::string_view source, size_t at, const Belongs& belongs) {
  while (at < source.size() && belongs(source[at])) ++at;
  return at;
}

bool IsDigitAt(absl::string_view source, size_t at) {
  return at < source.size() && absl::ascii_isdigit(source[at]);
}

// End of 12, 1.5, .5, 1e-3, 2.5E+8 that starts at `at`.
size_t EndOfNumber(absl::string_view source, size_t at) {
  const auto digit = [](char c) { return absl::ascii_isdigit(c); };
  at = EndOf(source, at, digit);
  if (at < source.size() && source[at] == '.') {
    at = EndOf(source, at + 1, digit);
  }
  if (at < source.size() && (source[at] == 'e' || source[at] == 'E')) {
    const bool sign = at + 1 < source.size() &&
                      (source[at + 1] == '+' || source[at + 1] == '-');
    const size_t digits = at + (sign ? 2 : 1);
    if (IsDigitAt(source, digits)) at = EndOf(source, digits, digit);
  }
  return at;
}

size_t SymbolLength(absl::string_view rest) {
  for (const char* symbol : {"<=", ">=", "==", "!=", "&&", "||"}) {
    if (rest.substr(0, 2) == symbol) return 2;
  }
  constexpr absl::string_view kSymbols = "+-*/%<>!?:()[],";
  return kSymbols.find(rest[0]) == absl::string_view::npos ? 0 : 1;
}

Token NumberAt(absl::string_view source, size_t at) {
  Token token;
  token.column = at + 1;
  const size_t end = EndOfNumber(source, at);
  // "2k" is no product.
  const size_t word = EndOf(source, end, IsInName);
  token.text = source.substr(at, word - at);
  const bool number = word == end &&
                      absl::SimpleAtod(token.text, &token.number) &&
                      std::isfinite(token.number);
  token.kind = number ? TokenKind::kNumber : TokenKind::kWrong;
  return token;
}

}  // namespace

Token NextToken(absl::string_view source, size_t offset) {
  const size_t at =
      EndOf(source, offset, [](char c) { return absl::ascii_isspace(c); });
  Token token;
  token.column = at + 1;
  if (at == source.size()) return token;
  const char first = source[at];
  if (absl::ascii_isdigit(first) || (first == '.' && IsDigitAt(source, at + 1)))
    return NumberAt(source, at);
  if (StartsName(first)) {
    token.kind = TokenKind::kName;
    token.text = source.substr(at, EndOf(source, at, IsInName) - at);
    return token;
  }
  const size_t length = SymbolLength(source.substr(at));
  token.kind = length == 0 ? TokenKind::kWrong : TokenKind::kSymbol;
  token.text = source.substr(at, length == 0 ? 1 : length);
  return token;
}

absl::Status TokenError(absl::string_view field, const Token& token,
                        absl::string_view expected) {
  const std::string what =
      token.kind == TokenKind::kEnd
          ? std::string("the end")
          : absl::StrCat("\"", absl::CHexEscape(token.text), "\"");
  return FieldError(field, absl::StrCat(what, " at column ", token.column),
                    expected);
}

}  // namespace attn
