// Who makes room for others: by going, or by being spilled.
#include <chrono>

#include "server/sessions/session_leavers.h"
#include "server/sessions/session_table.h"

namespace attn {
namespace {

// Sessions that are looked at before one goes: the lock is held.
constexpr int kLookedAt = 1000;

// A disk that hangs must not hold those who only need memory.
constexpr std::chrono::seconds kLongestSpillWait(2);

}  // namespace

bool SessionTable::CanFree(int64_t missing, absl::Time now) const {
  int left = kLookedAt;
  for (const Kind kind : {kHolding, kEmpty}) {
    for (const auto& [last_used, entry] : by_use_[kind]) {
      if (missing <= 0 || left-- == 0) return true;
      if (last_used > now - options_.evict_after) break;
      missing -= entry->charged;
    }
  }
  return missing <= 0;
}

SessionTable::Room SessionTable::MakeRoom(
    uint64_t seen, int64_t missing, std::shared_ptr<SessionEntry>* offer) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  if (RemoveDue(now, 1, leavers) > 0) return Room::kMade;
  if (CanFree(missing, now)) {
    SessionEntry* const next =
        LongestIdle({kHolding}, now, options_.evict_after);
    if (next != nullptr && offer != nullptr) {
      *offer = Offer(*next);
      return Room::kOffered;
    }
    // Those without blocks have little: only when no other is left.
    const Kind kind = next != nullptr ? kHolding : kEmpty;
    if (RemoveNext({kind}, now, leavers)) return Room::kMade;
  }
  while (freed_ == seen && leaving_ > offered_) left_.Wait(mutex_);
  while (freed_ == seen && leaving_ > 0) {
    if (!left_.WaitFor(mutex_, kLongestSpillWait)) break;
  }
  return freed_ == seen ? Room::kNone : Room::kChanged;
}

std::shared_ptr<SessionEntry> SessionTable::OfferIdle(absl::Duration idle) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  RemoveDue(now, 1, leavers);
  SessionEntry* const next = LongestIdle({kHolding}, now, idle);
  return next == nullptr ? nullptr : Offer(*next);
}

std::shared_ptr<SessionEntry> SessionTable::OfferAny() {
  const MutexLock lock(mutex_);
  for (const Kind kind : {kHolding, kEmpty}) {
    if (!by_use_[kind].empty()) return Offer(*by_use_[kind].begin()->second);
  }
  return nullptr;
}

std::shared_ptr<SessionEntry> SessionTable::Offer(SessionEntry& entry) {
  TakeOutOfOrder(entry);
  entry.pinned = true;
  ++leaving_;
  ++offered_;
  return entry.shelf->sessions.find(entry.id)->second;
}

void SessionTable::EndOffer(std::shared_ptr<SessionEntry> entry, bool evict) {
  if (evict) {
    Leavers leavers(*this);
    const MutexLock lock(mutex_);
    // Who closed it meanwhile has hidden it.
    if (!entry->closed) Hide(*entry, SessionEnd::kEvicted);
    Forget(std::move(entry), leavers);
  } else {
    Release(std::move(entry), false);
  }
  const MutexLock lock(mutex_);
  --leaving_;
  --offered_;
  ++freed_;
  left_.NotifyAll();
}

void SessionTable::Lose(std::shared_ptr<SessionEntry> entry) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  if (!entry->closed) Hide(*entry, SessionEnd::kDamaged);
  Forget(std::move(entry), leavers);
}

void SessionTable::Adopt(std::shared_ptr<SessionEntry> entry,
                         const std::string& tenant, absl::Duration idle,
                         absl::Duration age) {
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  PlaceOnShelf(entry, tenant);
  entry->last_used = now - idle;
  entry->opened = now - age;
  entry->pinned = false;
  CountOnDisk(*entry, true);
  PutInOrder(*entry);
}

}  // namespace attn
