#include "client/cli/near_match.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace attn {
namespace {

// Longer texts are no misspelt names.
constexpr size_t kLongest = 64;
// Fewer letters could be the begin of anything.
constexpr size_t kShortestBegin = 3;

std::string OnlyOneThatBegins(absl::string_view text,
                              const std::vector<std::string>& names) {
  std::string only;
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, text)) continue;
    if (!only.empty()) return "";
    only = name;
  }
  return only;
}

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  // cost[i][j]: from the first i letters of a to the first j of b.
  std::vector<std::vector<int>> cost(a.size() + 1,
                                     std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string NearMatch(absl::string_view text,
                      const std::vector<std::string>& names) {
  if (text.size() > kLongest) return "";
  int least = std::max(1, static_cast<int>(text.size() / 3)) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const int distance = EditDistance(text, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  if (!nearest.empty() || text.size() < kShortestBegin) return nearest;
  return OnlyOneThatBegins(text, names);
}

}  // namespace attn
