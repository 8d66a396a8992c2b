// Decides when a request may start: at once while there is room, otherwise
// together with what waits beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"
#include "server/batching/alarm.h"
#include "server/batching/batch_item.h"
#include "server/batching/wait_queue.h"

namespace attn {

// Requests that are started together.
struct BatchCount {
  int64_t requests = 1;
  int64_t tokens = 0;
  // They, and those of their lane that go on waiting for room.
  int64_t ready = 1;
};

struct BatcherOptions {
  // Requests that may wait; more are refused.
  int64_t max_queue_size = 512;
  // Tokens that run at once.
  int64_t max_batch_tokens = 16384;
  // Workers behind it: while as many requests of a lane run, none is idle for
  // want of them.
  int64_t parallelism = 1;
  // How long a request of an idle lane waits for company, while the queue has
  // places for any. Zero: not at all.
  absl::Duration max_queue_delay = absl::ZeroDuration();
  // So much longer than one of the next higher priority has a request waited
  // that goes before it.
  absl::Duration priority_ageing = absl::Seconds(1);
  // Told of the requests that were started together.
  std::function<void(const BatchCount& batch)> on_batch = nullptr;
  // Starts a batch of what has waited, in place of Start() on each, with the
  // same promise for each. On any thread. Null: Start() on each.
  std::function<void(BatchItems items, const BatchCount& batch)>
      start_together = nullptr;
};

// A request that is immediate starts at once, on the thread that brought it,
// and is not counted below. For the others there are two lanes, so that a small
// request never waits for a large one: a
// request of up to 1/16 of the budget is small, and a quarter of the budget is
// kept for small ones. A lane starts the next requests as soon as fewer of its
// requests run than there are workers: one that comes then goes ahead alone and
// at once; those that had to wait go together, in the order of WaitQueue, up to
// the budget.
//
// Invariants:
//  * the running tokens exceed the budget by one large and one small request
//    at most;
//  * each lane always runs its head if nothing else of that lane runs (and the
//    delay, if there is one, has passed or the queue is full), so no lane
//    starves;
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
  // Refuses what is late, and starts what need not wait for company any longer:
  // the alarm calls it.
  void StartDue();
  // Nothing happens any more on a thread of the batcher's own. Before the
  // engine goes.
  void Stop();

  // Requests that wait, and how long the first of them has waited.
  int64_t depth() const;
  absl::Duration oldest_age() const;
  int64_t running() const;

 private:
  struct Lane {
    explicit Lane(absl::Duration ageing) : waiting(ageing) {}
    WaitQueue waiting;
    int64_t running = 0;
    int64_t tokens = 0;
  };
  // Of a newcomer. OK: it starts, or it waits.
  struct Entry {
    absl::Status refusal;
    bool starts = false;
  };

  // What starts or leaves now, and when to look again.
  struct Ready {
    BatchItems small;
    BatchItems large;
    // Those of each lane that go on waiting.
    int64_t small_left = 0;
    int64_t large_left = 0;
    BatchItems late;
    absl::Time due = absl::InfiniteFuture();
  };

  void StartNow(BatchItem& item);
  Entry Enter(const std::shared_ptr<BatchItem>& item);
  // May it wait?
  absl::Status CheckNewcomer(const BatchItem& item, const Lane& lane,
                             absl::Time now) const ATTN_REQUIRES(mutex_);
  Lane& LaneOf(const BatchItem& item) ATTN_REQUIRES(mutex_);
  bool HasRoom(const Lane& lane, int64_t tokens) const ATTN_REQUIRES(mutex_);
  bool MayBegin(const Lane& lane, absl::Time now) const ATTN_REQUIRES(mutex_);
  int64_t Depth() const ATTN_REQUIRES(mutex_);
  void SweepNowAndThen(absl::Time now, BatchItems& late) ATTN_REQUIRES(mutex_);
  void TakeReady(Lane& lane, absl::Time now, BatchItems& ready,
                 BatchItems& late) ATTN_REQUIRES(mutex_);
  void Collect(absl::Time now, Ready& ready) ATTN_REQUIRES(mutex_);
  // When a waiting lane comes due; InfiniteFuture() if it need not be woken.
  absl::Time NextDue(absl::Time now) const ATTN_REQUIRES(mutex_);
  void Book(Lane& lane, const BatchItem& item) ATTN_REQUIRES(mutex_);
  void Launch(Ready ready);
  void StartBatch(BatchItems items, int64_t left) const;

  const BatcherOptions options_;
  const int64_t small_tokens_;
  const int64_t reserve_tokens_;
  const bool delays_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Lane small_ ATTN_GUARDED_BY(mutex_);
  Lane large_ ATTN_GUARDED_BY(mutex_);
  absl::Time next_sweep_ ATTN_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool closed_ ATTN_GUARDED_BY(mutex_) = false;
  // Last: it calls what is above.
  Alarm alarm_;
};

}  // namespace attn
