// Requests that wait, in the order in which they are to start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "server/batching/batch_item.h"

namespace attn {

// A request comes before another of the next lower priority unless that one
// came `ageing` earlier, or more: so nobody waits for ever. Among equals, first
// in, first out. Thread-compatible.
class WaitQueue {
 public:
  explicit WaitQueue(absl::Duration ageing) : ageing_(ageing) {}

  void Push(std::shared_ptr<BatchItem> item, absl::Time now);
  // The next to start; null if nobody waits.
  const BatchItem* front() const;
  // Takes it out, and remembers how long it waited.
  std::shared_ptr<BatchItem> Pop(absl::Time now);
  // Takes `item` out; null if it is not here.
  std::shared_ptr<BatchItem> Remove(const BatchItem& item);
  // Moves those to `late` whose Check() says so.
  void Sweep(BatchItems& late);
  // Moves all out.
  void TakeAll(BatchItems& items);

  // The least that the last few of that priority have waited; zero unless
  // somebody of that priority has waited ever since. A newcomer's wait is
  // hardly shorter.
  absl::Duration ExpectedWait(Priority priority) const;

  size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }
  // Of all that wait.
  int64_t tokens() const { return tokens_; }
  // When the first of them came; InfiniteFuture() if nobody waits.
  absl::Time oldest() const;
  absl::Time earliest_deadline() const;

 private:
  struct Waiting {
    std::shared_ptr<BatchItem> item;
    absl::Time since;
  };
  using Entries = std::multimap<absl::Time, Waiting>;

  static constexpr size_t kRemembered = 8;
  // Of one priority: how many wait, and a ring of the last waits.
  struct Waits {
    size_t waiting = 0;
    std::array<absl::Duration, kRemembered> last;
    size_t count = 0;
  };

  std::shared_ptr<BatchItem> Erase(Entries::iterator entry);
  Waits& WaitsOf(Priority priority) {
    return waits_[static_cast<size_t>(priority)];
  }

  const absl::Duration ageing_;
  // By the time at which a request of the highest priority would have had to
  // come to stand in the same place.
  Entries waiting_;
  int64_t tokens_ = 0;
  std::array<Waits, kPriorities> waits_;
};

}  // namespace attn
