#include "engine/plan/plan_cache.h"

#include <utility>

namespace attn {

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::Get(
    const Problem& problem) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = index_.find(problem); found != index_.end()) {
      ++counts_.hits;
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    ++counts_.misses;
  }
  // Outside the lock: others need not wait for it. Two that miss at once both
  // plan, and share the plan of the first to come back.
  auto plan = MakePlan(problem);
  if (!plan.ok()) return plan;

  const MutexLock lock(mutex_);
  if (const auto found = index_.find(problem); found != index_.end()) {
    return found->second->second;
  }
  entries_.emplace_front(problem, *plan);
  index_.emplace(problem, entries_.begin());
  if (entries_.size() > capacity_) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return plan;
}

PlanCache::Counts PlanCache::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace attn
