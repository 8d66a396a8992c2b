// On which replica a session is opened.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/capacity/random_numbers.h"

namespace attn {

enum class PlacementRule {
  // One after the other, or to whoever has the fewest.
  kEven,
  // Anywhere: DNS, a hash.
  kRandom,
  // The one of two at random that has fewer (Azar, Broder, Karlin and Upfal
  // 1994).
  kTwoChoices,
};

// "even", "random", "two-choices"
absl::string_view NameOf(PlacementRule rule);

// Sessions of each of `replicas` after `sessions` were placed.
std::vector<int64_t> PlaceSessions(int64_t sessions, int64_t replicas,
                                   PlacementRule rule, RandomNumbers& random);

// The same until one more would not fit where it falls: no replica has more
// than `most`, which is 1 at least. `replicas` * `most` is what must be waited
// for.
std::vector<int64_t> FillReplicas(int64_t most, int64_t replicas,
                                  PlacementRule rule, RandomNumbers& random);

}  // namespace attn
