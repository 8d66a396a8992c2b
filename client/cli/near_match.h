// Which of the names that there are was meant by one that there is not.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

// The fewest insertions, deletions, replacements and swaps of neighbours that
// turn one text into the other, each letter touched once (the optimal string
// alignment distance; Damerau 1964).
int EditDistance(absl::string_view a, absl::string_view b);

// The name that is nearest to `text`: a third of its letters, or one, may
// differ; or the only one that begins with it. Empty: none is.
std::string NearMatch(absl::string_view text,
                      const std::vector<std::string>& names);

}  // namespace attn
