// Decides when a request may start: at once while there is room, otherwise
// together with what waits beside it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"

namespace attn {

// One request on its way to the engine. The batcher calls Start() or Refuse(),
// exactly one of them, exactly once, without holding a lock.
class BatchItem {
 public:
  virtual ~BatchItem() = default;

  // Its share of the token budget, >= 0; does not change.
  virtual int64_t tokens() const = 0;
  // Not OK: it was cancelled or is late, and need not start.
  virtual absl::Status Check() const = 0;
  // Must lead to one Batcher::Finished(), from any thread.
  virtual void Start() = 0;
  virtual void Refuse(absl::Status status) = 0;
};

struct BatcherOptions {
  // Requests that may wait; more are refused.
  int64_t max_queue_size = 512;
  // Tokens that run at once.
  int64_t max_batch_tokens = 16384;
  // Told of the requests that were started together, and of their tokens.
  std::function<void(int64_t requests, int64_t tokens)> on_batch;
};

// There are two lanes, so that a small request never waits for a large one: a
// request of up to 1/16 of the budget is small, and a quarter of the budget is
// kept for small ones. Each lane is first in, first out. There is no timer.
//
// Invariants:
//  * the running tokens exceed the budget by one large and one small request
//    at most;
//  * each lane always runs its head if nothing else of that lane runs, so no
//    lane starves;
//  * every item is started or refused exactly once.
// Thread-safe; never blocks.
class Batcher {
 public:
  // `clock` must outlive the batcher.
  Batcher(BatcherOptions options, const Clock& clock);

  // Starts, queues or refuses `item`.
  void Schedule(std::shared_ptr<BatchItem> item);
  // Refuses `item` with its Check() if it still waits.
  void Withdraw(const BatchItem& item);
  // A started item ended: makes room, and starts what fits.
  void Finished(const BatchItem& item);
  // Refuses newcomers; what waits still runs.
  void Close();
  // Refuses all that wait.
  void RefuseWaiting(const absl::Status& status);

  // Requests that wait, and how long the first of them has waited.
  int64_t depth() const;
  absl::Duration oldest_age() const;
  int64_t running() const;

 private:
  struct Waiting {
    std::shared_ptr<BatchItem> item;
    absl::Time since;
  };
  struct Lane {
    std::deque<Waiting> waiting;
    int64_t running = 0;
    int64_t tokens = 0;
  };
  using Items = std::vector<std::shared_ptr<BatchItem>>;

  enum class Verdict { kStart, kWait, kFull, kClosed };
  Verdict Enter(const std::shared_ptr<BatchItem>& item);
  Lane& LaneOf(const BatchItem& item) ATTN_REQUIRES(mutex_);
  bool HasRoom(const Lane& lane, int64_t tokens) const ATTN_REQUIRES(mutex_);
  int64_t Depth() const ATTN_REQUIRES(mutex_);
  // Moves what is cancelled or late out of the lane.
  static void Sweep(Lane& lane, Items& late);
  void TakeReady(Lane& lane, Items& ready) ATTN_REQUIRES(mutex_);
  void StartAll(const Items& items) const;

  const BatcherOptions options_;
  const int64_t small_tokens_;
  const int64_t reserve_tokens_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Lane small_ ATTN_GUARDED_BY(mutex_);
  Lane large_ ATTN_GUARDED_BY(mutex_);
  bool closed_ ATTN_GUARDED_BY(mutex_) = false;
};

}  // namespace attn
