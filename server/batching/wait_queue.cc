#include "server/batching/wait_queue.h"

#include <algorithm>
#include <utility>

namespace attn {

void WaitQueue::Push(std::shared_ptr<BatchItem> item, absl::Time now) {
  const absl::Time place = now + ageing_ * static_cast<int>(item->priority());
  tokens_ += item->tokens();
  ++WaitsOf(item->priority()).waiting;
  waiting_.emplace(place, Waiting{std::move(item), now});
}

const BatchItem* WaitQueue::front() const {
  return waiting_.empty() ? nullptr : waiting_.begin()->second.item.get();
}

std::shared_ptr<BatchItem> WaitQueue::Pop(absl::Time now) {
  const auto first = waiting_.begin();
  Waits& waits = WaitsOf(first->second.item->priority());
  waits.last[waits.count++ % kRemembered] = now - first->second.since;
  return Erase(first);
}

std::shared_ptr<BatchItem> WaitQueue::Remove(const BatchItem& item) {
  const auto found = std::find_if(
      waiting_.begin(), waiting_.end(),
      [&item](const auto& entry) { return entry.second.item.get() == &item; });
  return found == waiting_.end() ? nullptr : Erase(found);
}

void WaitQueue::Sweep(BatchItems& late) {
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    const auto next = std::next(entry);
    if (!entry->second.item->Check().ok()) late.push_back(Erase(entry));
    entry = next;
  }
}

void WaitQueue::TakeAll(BatchItems& items) {
  while (!waiting_.empty()) items.push_back(Erase(waiting_.begin()));
}

absl::Duration WaitQueue::ExpectedWait(Priority priority) const {
  const Waits& waits = waits_[static_cast<size_t>(priority)];
  if (waits.count < kRemembered) return absl::ZeroDuration();
  return *std::min_element(waits.last.begin(), waits.last.end());
}

absl::Time WaitQueue::oldest() const {
  absl::Time oldest = absl::InfiniteFuture();
  for (const auto& [place, entry] : waiting_) {
    oldest = std::min(oldest, entry.since);
  }
  return oldest;
}

absl::Time WaitQueue::earliest_deadline() const {
  absl::Time earliest = absl::InfiniteFuture();
  for (const auto& [place, entry] : waiting_) {
    earliest = std::min(earliest, entry.item->deadline());
  }
  return earliest;
}

std::shared_ptr<BatchItem> WaitQueue::Erase(Entries::iterator entry) {
  std::shared_ptr<BatchItem> item = std::move(entry->second.item);
  tokens_ -= item->tokens();
  waiting_.erase(entry);
  // What was learnt holds as long as somebody like it waits: whoever is refused
  // for it would never teach better.
  Waits& waits = WaitsOf(item->priority());
  if (--waits.waiting == 0) waits = {};
  return item;
}

}  // namespace attn
