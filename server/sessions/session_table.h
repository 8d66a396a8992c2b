// Which sessions there are, whose, and which goes next.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"
#include "server/sessions/gone_sessions.h"
#include "server/sessions/session_entry.h"
#include "server/sessions/session_store_options.h"
#include "server/sessions/session_totals.h"

namespace attn {

class SessionLeavers;

inline constexpr size_t kGoneSessions = 10000;  // ids of GoneSessions

// Sessions that are not pinned stand in two orders, by last use and by when
// they are due, so that nobody searches for the next to go. The memory of one
// that goes is freed, and its file removed, after the lock is. One that is to
// be spilled is OFFERED: pinned for whoever writes it, until EndOffer().
// Thread-safe; must outlive its entries.
class SessionTable {
 public:
  // Files of sessions that are gone.
  using RemoveFile = std::function<void(const SessionEntry& entry)>;

  SessionTable(const SessionStoreOptions& options, const Clock& clock,
               RemoveFile remove_file = nullptr)
      : options_(options),
        clock_(clock),
        remove_file_(std::move(remove_file)) {}

  // Takes in a new session, pinned. RESOURCE_EXHAUSTED as SessionStore::Open()
  // and Fork().
  absl::Status Add(const std::shared_ptr<SessionEntry>& entry,
                   const std::string& tenant) ATTN_EXCLUDES(mutex_);
  using Held = std::shared_ptr<SessionEntry>;
  absl::StatusOr<Held> Acquire(const std::string& id, const std::string& tenant)
      ATTN_EXCLUDES(mutex_);
  void Release(Held entry, bool stepped) ATTN_EXCLUDES(mutex_);
  // Takes in one that has been spilled, not pinned, whatever the bounds say.
  void Adopt(Held entry, const std::string& tenant, absl::Duration idle,
             absl::Duration age) ATTN_EXCLUDES(mutex_);
  bool Close(const std::string& id, const std::string& tenant)
      ATTN_EXCLUDES(mutex_);
  // A pinned one is lost; nobody finds it again.
  void Lose(Held entry) ATTN_EXCLUDES(mutex_);
  absl::StatusOr<SessionSnapshot> Describe(const std::string& id,
                                           const std::string& tenant)
      ATTN_EXCLUDES(mutex_);
  std::vector<SessionSnapshot> List(const std::string& tenant,
                                    std::string after, size_t count)
      ATTN_EXCLUDES(mutex_);
  absl::Time Expire() ATTN_EXCLUDES(mutex_);

  // Charges a pinned session's tenant. RESOURCE_EXHAUSTED beyond what the
  // session or its tenant may have.
  absl::Status Charge(SessionEntry& entry, int64_t bytes) ATTN_EXCLUDES(mutex_);
  void Refund(SessionEntry& entry, int64_t bytes) ATTN_EXCLUDES(mutex_);

  enum class Room : uint8_t {
    kMade,     // of a session that went
    kChanged,  // others have freed memory
    kOffered,  // by a session that the caller is to spill
    kNone,
  };
  // Grows with each time that memory of sessions was freed.
  uint64_t freed() const ATTN_EXCLUDES(mutex_);
  // Makes one idle session go, or offers it if there is an `offer`. If none
  // can, waits for the memory of those that are on their way out, unless some
  // was freed since freed() was `seen`; for those that are being written at
  // most kLongestSpillWait.
  // Nobody goes if all that may have less than `missing` bytes together.
  Room MakeRoom(uint64_t seen, int64_t missing, Held* offer = nullptr)
      ATTN_EXCLUDES(mutex_);
  // Offers the session with memory that was idle longest, if for so long; null.
  Held OfferIdle(absl::Duration idle) ATTN_EXCLUDES(mutex_);
  // Any that is in memory.
  Held OfferAny() ATTN_EXCLUDES(mutex_);
  void EndOffer(Held entry, bool evict) ATTN_EXCLUDES(mutex_);

  SessionTotals totals() const ATTN_EXCLUDES(mutex_);
  void Count(SessionError error) ATTN_EXCLUDES(mutex_);

 private:
  friend class SessionLeavers;
  using Leavers = SessionLeavers;
  using Order = std::set<std::pair<absl::Time, SessionEntry*>>;
  // Sessions that have memory; that have none; that are on disk.
  enum Kind : uint8_t { kHolding, kEmpty, kOnDisk, kKinds };

  static Kind KindOf(const SessionEntry& entry);

  // NOT_FOUND, also if it is due: it goes.
  absl::StatusOr<SessionEntry*> Find(const std::string& id,
                                     const std::string& tenant, absl::Time now,
                                     Leavers& leavers) ATTN_REQUIRES(mutex_);
  void PutInOrder(SessionEntry& entry) ATTN_REQUIRES(mutex_);
  void TakeOutOfOrder(SessionEntry& entry) ATTN_REQUIRES(mutex_);
  Held Hide(SessionEntry& entry, SessionEnd end) ATTN_REQUIRES(mutex_);
  void Forget(Held entry, Leavers& leavers) ATTN_REQUIRES(mutex_);
  void CountOnDisk(SessionEntry& entry, bool on_disk) ATTN_REQUIRES(mutex_);
  void PlaceOnShelf(const Held& entry, const std::string& tenant)
      ATTN_REQUIRES(mutex_);
  Held Offer(SessionEntry& entry) ATTN_REQUIRES(mutex_);
  // The one of these kinds that was idle longest, if for so long; or null.
  SessionEntry* LongestIdle(std::initializer_list<Kind> kinds, absl::Time now,
                            absl::Duration idle) ATTN_REQUIRES(mutex_);
  // Whether those that may go have so many bytes; many are taken to have.
  bool CanFree(int64_t missing, absl::Time now) const ATTN_REQUIRES(mutex_);
  // The one that is due, or else idle longest; false if it may stay.
  bool RemoveNext(std::initializer_list<Kind> kinds, absl::Time now,
                  Leavers& leavers) ATTN_REQUIRES(mutex_);
  // At most `most` of those that are due; how many.
  int RemoveDue(absl::Time now, int most, Leavers& leavers)
      ATTN_REQUIRES(mutex_);
  absl::Status CheckTenant(const SessionShelf& shelf, int64_t charged,
                           int64_t bytes) const ATTN_REQUIRES(mutex_);

  const SessionStoreOptions options_;
  const Clock& clock_;
  const RemoveFile remove_file_;
  mutable Mutex mutex_;
  CondVar left_;
  std::map<std::string, SessionShelf> shelves_ ATTN_GUARDED_BY(mutex_);
  std::array<Order, kKinds> by_use_ ATTN_GUARDED_BY(mutex_);
  Order by_due_time_ ATTN_GUARDED_BY(mutex_);
  GoneSessions gone_ ATTN_GUARDED_BY(mutex_){kGoneSessions};
  SessionTotals totals_ ATTN_GUARDED_BY(mutex_);
  // Sessions whose memory is being freed, and of them those that are offered.
  int64_t leaving_ ATTN_GUARDED_BY(mutex_) = 0;
  int64_t offered_ ATTN_GUARDED_BY(mutex_) = 0;
  uint64_t freed_ ATTN_GUARDED_BY(mutex_) = 0;
};

}  // namespace attn
