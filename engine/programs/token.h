// Words of a program.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

enum class TokenKind : uint8_t { kEnd, kNumber, kName, kSymbol, kWrong };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // Of the source; one character of it if kWrong.
  absl::string_view text;
  // Of a number.
  double number = 0;
  // Of the first character, from 1.
  size_t column = 1;

  bool Is(absl::string_view symbol) const {
    return kind == TokenKind::kSymbol && text == symbol;
  }
};

// The token at or after byte `offset`, blanks passed over. Digits that do not
// make a number of the language are kWrong. Thread-safe: pure.
Token NextToken(absl::string_view source, size_t offset);

// "`field`: got "]" at column 7, expected `expected`".
absl::Status TokenError(absl::string_view field, const Token& token,
                        absl::string_view expected);

}  // namespace attn
