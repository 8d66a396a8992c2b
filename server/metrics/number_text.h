// Numbers as Prometheus reads them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace attn {

inline void AppendNumber(uint64_t value, std::string& text) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text.append(digits, end);
}

// The shortest that reads back as the same number.
inline void AppendNumber(double value, std::string& text) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
  } else {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    text.append(digits, end);
  }
}

}  // namespace attn
