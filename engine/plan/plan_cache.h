// Plans by problem: equal problems share one.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/plan/plan.h"
#include "engine/runtime/mutex.h"

namespace attn {

// Keeps the most recently used plans. Thread-safe.
class PlanCache {
 public:
  // `capacity` >= 1 plans.
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  // The plan of `problem`, made if it is not here. Errors are not kept.
  absl::StatusOr<std::shared_ptr<const Plan>> Get(const Problem& problem);

  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
  };
  Counts counts() const;

 private:
  using Entry = std::pair<Problem, std::shared_ptr<const Plan>>;

  const size_t capacity_;
  mutable Mutex mutex_;
  // Most recently used first.
  std::list<Entry> entries_ ATTN_GUARDED_BY(mutex_);
  absl::flat_hash_map<Problem, std::list<Entry>::iterator> index_
      ATTN_GUARDED_BY(mutex_);
  Counts counts_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
