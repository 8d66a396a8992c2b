#include "server/batching/batcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

constexpr char kStopping[] = "the server is stopping";

constexpr int64_t kSmallShare = 16;
constexpr int64_t kReserveShare = 4;
// Whoever is late leaves the queue when the alarm rings for its deadline. The
// cancelled leave by Withdraw(), and those of whom nobody tells when their turn
// comes, or at a look at all of them, which is not for every call.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(5);

}  // namespace

Batcher::Batcher(BatcherOptions options, const Clock& clock)
    : options_(std::move(options)),
      small_tokens_(options_.max_batch_tokens / kSmallShare),
      reserve_tokens_(options_.max_batch_tokens / kReserveShare),
      delays_(options_.max_queue_delay > absl::ZeroDuration()),
      clock_(clock),
      small_(options_.priority_ageing),
      large_(options_.priority_ageing),
      alarm_(clock, [this] { StartDue(); }) {}

void Batcher::Schedule(std::shared_ptr<BatchItem> item) {
  if (item->immediate()) {
    StartNow(*item);
    return;
  }
  const Entry entry = Enter(item);
  if (!entry.refusal.ok()) {
    item->Refuse(entry.refusal);
  } else if (entry.starts) {
    if (options_.on_batch) {
      options_.on_batch({.tokens = item->tokens()});
    }
    item->Start();
  }
}

void Batcher::StartNow(BatchItem& item) {
  bool closed = false;
  {
    MutexLock lock(mutex_);
    closed = closed_;
  }
  if (closed) {
    item.Refuse(attn::Refuse(Refusal::kDraining, kStopping));
  } else {
    item.Start();
  }
}

Batcher::Entry Batcher::Enter(const std::shared_ptr<BatchItem>& item) {
  Entry entry;
  Ready ready;
  {
    const absl::Time now = clock_.Now();
    MutexLock lock(mutex_);
    Lane& lane = LaneOf(*item);
    entry.starts = !closed_ && !delays_ && lane.waiting.empty() &&
                   MayBegin(lane, now) && HasRoom(lane, item->tokens());
    if (entry.starts) {
      Book(lane, *item);
      return entry;
    }
    // The dead take no place in the queue.
    if (Depth() >= options_.max_queue_size) next_sweep_ = now;
    SweepNowAndThen(now, ready.late);
    entry.refusal = CheckNewcomer(*item, lane, now);
    if (entry.refusal.ok()) {
      lane.waiting.Push(item, now);
      ready.due = item->deadline();
      if (delays_) Collect(now, ready);
    }
  }
  Launch(std::move(ready));
  return entry;
}

absl::Status Batcher::CheckNewcomer(const BatchItem& item, const Lane& lane,
                                    absl::Time now) const {
  if (closed_) return Refuse(Refusal::kDraining, kStopping);
  if (Depth() >= options_.max_queue_size) {
    return Refuse(Refusal::kQueueFull,
                  absl::StrCat("the queue holds ", options_.max_queue_size,
                               " requests, as many as --max-queue-size "
                               "allows"));
  }
  const absl::Duration left = item.deadline() - now;
  const absl::Duration wait = lane.waiting.ExpectedWait(item.priority());
  if (wait <= left) return absl::OkStatus();
  return Refuse(Refusal::kDeadlineUnmeetable,
                absl::StrCat("the deadline, in ", absl::FormatDuration(left),
                             ", cannot be met: requests wait ",
                             absl::FormatDuration(wait), " before they start"));
}

void Batcher::Withdraw(const BatchItem& item) {
  std::shared_ptr<BatchItem> withdrawn;
  {
    MutexLock lock(mutex_);
    withdrawn = LaneOf(item).waiting.Remove(item);
  }
  if (withdrawn != nullptr) withdrawn->Refuse(withdrawn->Check());
}

void Batcher::Finished(const BatchItem& item) {
  if (item.immediate()) return;
  Ready ready;
  {
    MutexLock lock(mutex_);
    Lane& lane = LaneOf(item);
    --lane.running;
    lane.tokens -= item.tokens();
    if (Depth() == 0) return;
    Collect(clock_.Now(), ready);
  }
  Launch(std::move(ready));
}

void Batcher::StartDue() {
  Ready ready;
  {
    MutexLock lock(mutex_);
    const absl::Time now = clock_.Now();
    next_sweep_ = now;
    Collect(now, ready);
    ready.due = std::min({ready.due, small_.waiting.earliest_deadline(),
                          large_.waiting.earliest_deadline()});
  }
  Launch(std::move(ready));
}

void Batcher::Stop() { alarm_.Stop(); }

void Batcher::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

void Batcher::RefuseWaiting(const absl::Status& status) {
  BatchItems items;
  {
    MutexLock lock(mutex_);
    small_.waiting.TakeAll(items);
    large_.waiting.TakeAll(items);
  }
  for (const auto& item : items) item->Refuse(status);
}

int64_t Batcher::depth() const {
  MutexLock lock(mutex_);
  return Depth();
}

absl::Duration Batcher::oldest_age() const {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  return now -
         std::min({now, small_.waiting.oldest(), large_.waiting.oldest()});
}

int64_t Batcher::running() const {
  MutexLock lock(mutex_);
  return small_.running + large_.running;
}

Batcher::Lane& Batcher::LaneOf(const BatchItem& item) {
  return item.tokens() <= small_tokens_ ? small_ : large_;
}

bool Batcher::HasRoom(const Lane& lane, int64_t tokens) const {
  if (lane.running == 0) return true;
  const int64_t budget = options_.max_batch_tokens;
  if (&lane == &small_) {
    const int64_t large = std::min(large_.tokens, budget - reserve_tokens_);
    return tokens <= budget - large - small_.tokens;
  }
  return tokens <= budget - reserve_tokens_ - large_.tokens &&
         tokens <= budget - small_.tokens - large_.tokens;
}

bool Batcher::MayBegin(const Lane& lane, absl::Time now) const {
  if (lane.running >= options_.parallelism) return false;
  const int64_t full =
      options_.max_batch_tokens - (&lane == &large_ ? reserve_tokens_ : 0);
  // A full queue lets no company in.
  return !delays_ || lane.waiting.tokens() >= full ||
         Depth() >= options_.max_queue_size ||
         lane.waiting.oldest() + options_.max_queue_delay <= now;
}

int64_t Batcher::Depth() const {
  return static_cast<int64_t>(small_.waiting.size() + large_.waiting.size());
}

void Batcher::SweepNowAndThen(absl::Time now, BatchItems& late) {
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  small_.waiting.Sweep(late);
  large_.waiting.Sweep(late);
}

void Batcher::TakeReady(Lane& lane, absl::Time now, BatchItems& ready,
                        BatchItems& late) {
  if (!MayBegin(lane, now)) return;
  while (const BatchItem* head = lane.waiting.front()) {
    if (!head->Check().ok()) {
      late.push_back(lane.waiting.Remove(*head));
      continue;
    }
    if (!HasRoom(lane, head->tokens())) return;
    Book(lane, *head);
    ready.push_back(lane.waiting.Pop(now));
  }
}

void Batcher::Collect(absl::Time now, Ready& ready) {
  SweepNowAndThen(now, ready.late);
  TakeReady(small_, now, ready.small, ready.late);
  TakeReady(large_, now, ready.large, ready.late);
  ready.small_left = static_cast<int64_t>(small_.waiting.size());
  ready.large_left = static_cast<int64_t>(large_.waiting.size());
  if (delays_) ready.due = std::min(ready.due, NextDue(now));
}

absl::Time Batcher::NextDue(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  for (const Lane* lane : {&small_, &large_}) {
    if (lane->running >= options_.parallelism) continue;
    const absl::Time due = lane->waiting.oldest() + options_.max_queue_delay;
    // What is due and still waits wants room: Finished() sees to it, an alarm
    // would only ring again and again.
    if (due > now) next = std::min(next, due);
  }
  return next;
}

void Batcher::Book(Lane& lane, const BatchItem& item) {
  ++lane.running;
  lane.tokens += item.tokens();
}

void Batcher::Launch(Ready ready) {
  for (const auto& item : ready.late) item->Refuse(item->Check());
  alarm_.Set(ready.due);
  StartBatch(std::move(ready.small), ready.small_left);
  StartBatch(std::move(ready.large), ready.large_left);
}

void Batcher::StartBatch(BatchItems items, int64_t left) const {
  if (items.empty()) return;
  const auto requests = static_cast<int64_t>(items.size());
  BatchCount batch{.requests = requests, .tokens = 0, .ready = requests + left};
  for (const auto& item : items) batch.tokens += item->tokens();
  if (options_.on_batch) options_.on_batch(batch);
  if (options_.start_together) {
    options_.start_together(std::move(items), batch);
    return;
  }
  for (const auto& item : items) item->Start();
}

}  // namespace attn
