#include "server/batching/batcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

constexpr int64_t kSmallShare = 16;
constexpr int64_t kReserveShare = 4;

}  // namespace

Batcher::Batcher(BatcherOptions options, const Clock& clock)
    : options_(std::move(options)),
      small_tokens_(options_.max_batch_tokens / kSmallShare),
      reserve_tokens_(options_.max_batch_tokens / kReserveShare),
      clock_(clock) {}

void Batcher::Schedule(std::shared_ptr<BatchItem> item) {
  switch (Enter(item)) {
    case Verdict::kStart:
      StartAll({std::move(item)});
      return;
    case Verdict::kWait:
      return;
    case Verdict::kFull:
      item->Refuse(attn::Refuse(
          Refusal::kQueueFull,
          absl::StrCat("the queue holds ", options_.max_queue_size,
                       " requests, as many as --max-queue-size allows")));
      return;
    case Verdict::kClosed:
      item->Refuse(attn::Refuse(Refusal::kDraining, "the server is stopping"));
      return;
  }
}

Batcher::Verdict Batcher::Enter(const std::shared_ptr<BatchItem>& item) {
  const int64_t tokens = item->tokens();
  MutexLock lock(mutex_);
  if (closed_) return Verdict::kClosed;
  Lane& lane = LaneOf(*item);
  if (lane.waiting.empty() && HasRoom(lane, tokens)) {
    ++lane.running;
    lane.tokens += tokens;
    return Verdict::kStart;
  }
  if (Depth() >= options_.max_queue_size) return Verdict::kFull;
  lane.waiting.push_back({item, clock_.Now()});
  return Verdict::kWait;
}

void Batcher::Withdraw(const BatchItem& item) {
  std::shared_ptr<BatchItem> withdrawn;
  {
    MutexLock lock(mutex_);
    std::deque<Waiting>& waiting = LaneOf(item).waiting;
    const auto found = std::find_if(
        waiting.begin(), waiting.end(),
        [&item](const Waiting& entry) { return entry.item.get() == &item; });
    if (found == waiting.end()) return;
    withdrawn = std::move(found->item);
    waiting.erase(found);
  }
  withdrawn->Refuse(withdrawn->Check());
}

void Batcher::Finished(const BatchItem& item) {
  Items late;
  Items ready;
  {
    MutexLock lock(mutex_);
    Lane& lane = LaneOf(item);
    --lane.running;
    lane.tokens -= item.tokens();
    Sweep(small_, late);
    Sweep(large_, late);
    TakeReady(small_, ready);
    TakeReady(large_, ready);
  }
  for (const auto& each : late) each->Refuse(each->Check());
  StartAll(ready);
}

void Batcher::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

void Batcher::RefuseWaiting(const absl::Status& status) {
  std::deque<Waiting> small;
  std::deque<Waiting> large;
  {
    MutexLock lock(mutex_);
    small.swap(small_.waiting);
    large.swap(large_.waiting);
  }
  for (const Waiting& entry : small) entry.item->Refuse(status);
  for (const Waiting& entry : large) entry.item->Refuse(status);
}

int64_t Batcher::depth() const {
  MutexLock lock(mutex_);
  return Depth();
}

absl::Duration Batcher::oldest_age() const {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  absl::Time oldest = now;
  for (const Lane* lane : {&small_, &large_}) {
    if (lane->waiting.empty()) continue;
    oldest = std::min(oldest, lane->waiting.front().since);
  }
  return now - oldest;
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

int64_t Batcher::Depth() const {
  return static_cast<int64_t>(small_.waiting.size() + large_.waiting.size());
}

void Batcher::Sweep(Lane& lane, Items& late) {
  const auto first_late = std::stable_partition(
      lane.waiting.begin(), lane.waiting.end(),
      [](const Waiting& entry) { return entry.item->Check().ok(); });
  for (auto it = first_late; it != lane.waiting.end(); ++it) {
    late.push_back(std::move(it->item));
  }
  lane.waiting.erase(first_late, lane.waiting.end());
}

void Batcher::TakeReady(Lane& lane, Items& ready) {
  while (!lane.waiting.empty()) {
    std::shared_ptr<BatchItem>& head = lane.waiting.front().item;
    const int64_t tokens = head->tokens();
    if (!HasRoom(lane, tokens)) return;
    ++lane.running;
    lane.tokens += tokens;
    ready.push_back(std::move(head));
    lane.waiting.pop_front();
  }
}

void Batcher::StartAll(const Items& items) const {
  if (items.empty()) return;
  if (options_.on_batch) {
    int64_t tokens = 0;
    for (const auto& item : items) tokens += item->tokens();
    options_.on_batch(static_cast<int64_t>(items.size()), tokens);
  }
  for (const auto& item : items) item->Start();
}

}  // namespace attn
