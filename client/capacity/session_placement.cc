#include "client/capacity/session_placement.h"

#include <limits>

namespace attn {
namespace {

size_t ChosenReplica(const std::vector<int64_t>& held, int64_t placed,
                     PlacementRule rule, RandomNumbers& random) {
  const auto replicas = static_cast<int64_t>(held.size());
  if (rule == PlacementRule::kEven) {
    return static_cast<size_t>(placed % replicas);
  }
  const auto first = static_cast<size_t>(random.Below(replicas));
  if (rule == PlacementRule::kRandom) return first;
  const auto second = static_cast<size_t>(random.Below(replicas));
  return held[second] < held[first] ? second : first;
}

std::vector<int64_t> Place(int64_t sessions, int64_t most, int64_t replicas,
                           PlacementRule rule, RandomNumbers& random) {
  std::vector<int64_t> held(static_cast<size_t>(replicas), 0);
  for (int64_t placed = 0; placed < sessions; ++placed) {
    int64_t& chosen = held[ChosenReplica(held, placed, rule, random)];
    if (chosen == most) break;
    ++chosen;
  }
  return held;
}

}  // namespace

absl::string_view NameOf(PlacementRule rule) {
  switch (rule) {
    case PlacementRule::kEven:
      return "even";
    case PlacementRule::kRandom:
      return "random";
    case PlacementRule::kTwoChoices:
      return "two-choices";
  }
  return "";
}

std::vector<int64_t> PlaceSessions(int64_t sessions, int64_t replicas,
                                   PlacementRule rule, RandomNumbers& random) {
  return Place(sessions, std::numeric_limits<int64_t>::max(), replicas, rule,
               random);
}

std::vector<int64_t> FillReplicas(int64_t most, int64_t replicas,
                                  PlacementRule rule, RandomNumbers& random) {
  return Place(most * replicas, most, replicas, rule, random);
}

}  // namespace attn
