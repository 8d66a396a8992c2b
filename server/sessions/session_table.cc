#include "server/sessions/session_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/sessions/session_errors.h"
#include "server/sessions/session_leavers.h"

namespace attn {
namespace {

// Of expired sessions, at each call: as many as nobody notices.
constexpr int kSweptByACall = 16;
// By a call that has no other work.
constexpr int kSweptAtOnce = 256;
// Snapshots made while others wait for the lock.
constexpr size_t kToldAtOnce = 64;

SessionSnapshot Tell(const SessionEntry& entry, absl::Time now) {
  SessionSnapshot snapshot = entry.told;
  snapshot.id = entry.id;
  snapshot.settings = entry.settings;
  snapshot.idle = now - entry.last_used;
  snapshot.age = now - entry.opened;
  return snapshot;
}

absl::Duration IdleTimeout(absl::Duration asked, absl::Duration most) {
  return asked > absl::ZeroDuration() ? std::min(asked, most) : most;
}

bool IsDue(const SessionEntry& entry, absl::Time now) {
  return !entry.pinned && entry.Due() <= now;
}

}  // namespace

absl::Status SessionTable::Add(const std::shared_ptr<SessionEntry>& entry,
                               const std::string& tenant) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  RemoveDue(now, kSweptByACall, leavers);
  const auto known = shelves_.find(tenant);
  const SessionShelf none;
  absl::Status status =
      CheckTenant(known == shelves_.end() ? none : known->second, 0,
                  entry->base_bytes + entry->bytes);
  if (!status.ok()) return status;
  while (totals_.sessions >= options_.max_sessions) {
    if (RemoveNext({kHolding, kEmpty, kOnDisk}, now, leavers)) continue;
    return KvMemory(
        KvShortage::kPasses,
        absl::StrCat(
            "the server has ", totals_.sessions,
            " sessions, which is the most, and none of them was idle for ",
            absl::FormatDuration(options_.evict_after)));
  }
  PlaceOnShelf(entry, tenant);
  entry->opened = entry->last_used = now;
  return absl::OkStatus();
}

void SessionTable::PlaceOnShelf(const std::shared_ptr<SessionEntry>& entry,
                                const std::string& tenant) {
  const auto [place, fresh] = shelves_.try_emplace(tenant);
  SessionShelf& shelf = place->second;
  // Once: who has a session pinned reads it without the lock.
  if (fresh) shelf.tenant = tenant;
  shelf.sessions.emplace(entry->id, entry);
  ++shelf.held;
  entry->shelf = &shelf;
  entry->charged = entry->base_bytes + entry->bytes;
  shelf.bytes += entry->charged;
  entry->idle_timeout =
      IdleTimeout(entry->settings->idle_timeout, options_.idle_timeout);
  ++totals_.sessions;
}

absl::StatusOr<std::shared_ptr<SessionEntry>> SessionTable::Acquire(
    const std::string& id, const std::string& tenant) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  RemoveDue(now, kSweptByACall, leavers);
  const auto entry = Find(id, tenant, now, leavers);
  if (!entry.ok()) return entry.status();
  if ((*entry)->pinned) return SessionBusy(id);
  TakeOutOfOrder(**entry);
  (*entry)->pinned = true;
  return (*entry)->shelf->sessions.find(id)->second;
}

void SessionTable::Release(std::shared_ptr<SessionEntry> entry, bool stepped) {
  entry->Measure();
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  entry->Publish();
  const int64_t charged = entry->base_bytes + entry->bytes;
  entry->shelf->bytes += charged - entry->charged;
  entry->charged = charged;
  if (entry->closed) {
    Forget(std::move(entry), leavers);
  } else {
    CountOnDisk(*entry, entry->spilled_bytes > 0);
    if (stepped) entry->last_used = now;
    entry->pinned = false;
    PutInOrder(*entry);
    // Within the lock: from here on only the table holds it, so that whoever
    // removes it frees its memory.
    entry.reset();
  }
  RemoveDue(now, kSweptByACall, leavers);
}

bool SessionTable::Close(const std::string& id, const std::string& tenant) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  RemoveDue(now, kSweptByACall, leavers);
  const auto entry = Find(id, tenant, now, leavers);
  if (!entry.ok()) return false;
  auto hidden = Hide(**entry, SessionEnd::kClient);
  if (!hidden->pinned) Forget(std::move(hidden), leavers);
  return true;
}

absl::StatusOr<SessionSnapshot> SessionTable::Describe(
    const std::string& id, const std::string& tenant) {
  Leavers leavers(*this);
  const MutexLock lock(mutex_);
  const absl::Time now = clock_.Now();
  RemoveDue(now, kSweptByACall, leavers);
  const auto entry = Find(id, tenant, now, leavers);
  if (!entry.ok()) return entry.status();
  return Tell(**entry, now);
}

std::vector<SessionSnapshot> SessionTable::List(const std::string& tenant,
                                                std::string after,
                                                size_t count) {
  std::vector<SessionSnapshot> found;
  for (bool more = true; more;) {
    Leavers leavers(*this);
    const MutexLock lock(mutex_);
    const absl::Time now = clock_.Now();
    RemoveDue(now, kSweptByACall, leavers);
    const size_t end = std::min(count, found.size() + kToldAtOnce);
    const auto shelf = shelves_.find(tenant);
    if (shelf == shelves_.end()) break;
    const auto& sessions = shelf->second.sessions;
    auto it = sessions.upper_bound(after);
    for (; it != sessions.end() && found.size() < end; ++it) {
      if (!IsDue(*it->second, now)) found.push_back(Tell(*it->second, now));
    }
    more = it != sessions.end() && found.size() < count;
    if (more) after = found.back().id;
  }
  return found;
}

absl::Time SessionTable::Expire() {
  while (true) {
    Leavers leavers(*this);
    const MutexLock lock(mutex_);
    if (RemoveDue(clock_.Now(), kSweptAtOnce, leavers) > 0) continue;
    return by_due_time_.empty() ? absl::InfiniteFuture()
                                : by_due_time_.begin()->first;
  }
}

absl::Status SessionTable::Charge(SessionEntry& entry, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const MutexLock lock(mutex_);
  if (bytes > options_.max_bytes - entry.charged) {
    return KvMemory(
        KvShortage::kStays,
        absl::StrCat("a session of ", entry.charged, " bytes cannot have ",
                     bytes, " more: --max-session-bytes=", options_.max_bytes,
                     " are all that there are"));
  }
  absl::Status status = CheckTenant(*entry.shelf, entry.charged, bytes);
  if (!status.ok()) return status;
  entry.charged += bytes;
  entry.shelf->bytes += bytes;
  return status;
}

void SessionTable::Refund(SessionEntry& entry, int64_t bytes) {
  const MutexLock lock(mutex_);
  entry.charged -= bytes;
  entry.shelf->bytes -= bytes;
}

uint64_t SessionTable::freed() const {
  const MutexLock lock(mutex_);
  return freed_;
}

SessionTotals SessionTable::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

void SessionTable::Count(SessionError error) {
  const MutexLock lock(mutex_);
  ++totals_.errors[static_cast<size_t>(error)];
}

absl::StatusOr<SessionEntry*> SessionTable::Find(const std::string& id,
                                                 const std::string& tenant,
                                                 absl::Time now,
                                                 Leavers& leavers) {
  const auto shelf = shelves_.find(tenant);
  if (shelf != shelves_.end()) {
    const auto& sessions = shelf->second.sessions;
    const auto found = sessions.find(id);
    if (found != sessions.end() && !IsDue(*found->second, now)) {
      return found->second.get();
    }
    if (found != sessions.end()) {
      Forget(Hide(*found->second, SessionEnd::kIdle), leavers);
    }
  }
  return gone_.Contains(tenant, id) ? SessionExpired(id) : SessionNotHere(id);
}

SessionTable::Kind SessionTable::KindOf(const SessionEntry& entry) {
  if (entry.on_disk) return kOnDisk;
  return entry.charged > entry.base_bytes ? kHolding : kEmpty;
}

void SessionTable::CountOnDisk(SessionEntry& entry, bool on_disk) {
  totals_.spilled += (on_disk ? 1 : 0) - (entry.on_disk ? 1 : 0);
  entry.on_disk = on_disk;
}

void SessionTable::PutInOrder(SessionEntry& entry) {
  by_use_[KindOf(entry)].emplace(entry.last_used, &entry);
  by_due_time_.emplace(entry.Due(), &entry);
}

void SessionTable::TakeOutOfOrder(SessionEntry& entry) {
  by_use_[KindOf(entry)].erase({entry.last_used, &entry});
  by_due_time_.erase({entry.Due(), &entry});
}

std::shared_ptr<SessionEntry> SessionTable::Hide(SessionEntry& entry,
                                                 SessionEnd end) {
  if (!entry.pinned) TakeOutOfOrder(entry);
  CountOnDisk(entry, false);
  entry.closed = true;
  --totals_.sessions;
  ++totals_.ended[static_cast<size_t>(end)];
  if (end == SessionEnd::kIdle || end == SessionEnd::kEvicted) {
    gone_.Remember(entry.shelf->tenant, entry.id);
  }
  return std::move(entry.shelf->sessions.extract(entry.id).mapped());
}

void SessionTable::Forget(std::shared_ptr<SessionEntry> entry,
                          Leavers& leavers) {
  SessionShelf& shelf = *entry->shelf;
  shelf.bytes -= entry->charged;
  ++leaving_;
  leavers.Add(std::move(entry));
  if (--shelf.held == 0) shelves_.erase(shelves_.find(shelf.tenant));
}

SessionEntry* SessionTable::LongestIdle(std::initializer_list<Kind> kinds,
                                        absl::Time now, absl::Duration idle) {
  std::pair<absl::Time, SessionEntry*> longest(now - idle, nullptr);
  for (const Kind kind : kinds) {
    const Order& order = by_use_[kind];
    if (order.empty() || order.begin()->first > longest.first) continue;
    longest = *order.begin();
  }
  return longest.second;
}

bool SessionTable::RemoveNext(std::initializer_list<Kind> kinds, absl::Time now,
                              Leavers& leavers) {
  if (RemoveDue(now, 1, leavers) > 0) return true;
  SessionEntry* const entry = LongestIdle(kinds, now, options_.evict_after);
  if (entry == nullptr) return false;
  Forget(Hide(*entry, SessionEnd::kEvicted), leavers);
  return true;
}

int SessionTable::RemoveDue(absl::Time now, int most, Leavers& leavers) {
  int count = 0;
  while (count < most && !by_due_time_.empty() &&
         by_due_time_.begin()->first <= now) {
    Forget(Hide(*by_due_time_.begin()->second, SessionEnd::kIdle), leavers);
    ++count;
  }
  return count;
}

absl::Status SessionTable::CheckTenant(const SessionShelf& shelf,
                                       int64_t charged, int64_t bytes) const {
  const int64_t most = options_.max_tenant_bytes;
  if (most == 0 || bytes == 0 || bytes <= most - shelf.bytes) {
    return absl::OkStatus();
  }
  return KvMemory(
      bytes > most - charged ? KvShortage::kStays : KvShortage::kPasses,
      absl::StrCat("the tenant's sessions have ", shelf.bytes, " bytes, and ",
                   bytes, " more exceed --max-tenant-session-bytes=", most));
}

}  // namespace attn
