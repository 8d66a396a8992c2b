// A few positions of a sequence that a mask treats apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {

// Thread-safe: const.
class TokenSet {
 public:
  explicit TokenSet(std::vector<int64_t> tokens) : tokens_(std::move(tokens)) {
    std::sort(tokens_.begin(), tokens_.end());
  }

  bool Contains(int64_t position) const {
    return std::binary_search(tokens_.begin(), tokens_.end(), position);
  }

 private:
  std::vector<int64_t> tokens_;
};

inline absl::Status CheckTokens(const std::vector<int64_t>& tokens,
                                const std::string& field) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0) continue;
    return FieldError(absl::StrCat(field, "[", i, "]"), absl::StrCat(tokens[i]),
                      "a position >= 0");
  }
  return absl::OkStatus();
}

}  // namespace attn
