// The sessions of a server: who has which, and who must go when memory is
// short.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/cache/kv_block_pool.h"
#include "engine/runtime/clock.h"
#include "server/sessions/session.h"
#include "server/sessions/session_errors.h"
#include "server/sessions/session_record.h"
#include "server/sessions/session_store_options.h"
#include "server/sessions/session_totals.h"

namespace attn {

class SessionSpiller;
class SessionFile;
class SessionTable;
struct SessionEntry;

// Opens, pins, forks and forgets. A session belongs to the tenant that opened
// it; to others it is not there.
//
// A pin is exclusive: who has it may change the state, and neither eviction nor
// expiry nor Close touches the session under it (Close takes effect when it
// ends). Expired sessions are not there for anybody; their memory goes a few at
// a time when anybody calls, and all of it when Expire() is called by whoever
// has a clock; 10000 ids of sessions that expired or made room are remembered,
// to tell SESSION_EXPIRED from SESSION_NOT_HERE.
//
// With a spiller, sessions that are idle go to disk instead of being lost, and
// come back when they are acquired, in the caller's thread; while one is on its
// way it is busy. Those that are on disk are still there for all else, and
// their memory is nobody's.
//
// Thread-safe; must outlive its pins. No lock is held while a session is used.
class SessionStore {
 public:
  // Ends in Release(), by itself at the latest. Move-only; thread-compatible.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&& other) noexcept;
    ~Pin();
    bool held() const { return entry_ != nullptr; }
    // As all the rest, while it is held.
    const std::string& id() const;
    const SessionSettings& settings() const;
    SessionState& state() const;
    // Makes room for `tokens` more in each of `layers`, which the session has,
    // none of them twice; evicting idle sessions of anybody if the budget is
    // short, the one that was idle longest first. RESOURCE_EXHAUSTED with a
    // reason KV_MEMORY or SESSION_FULL; then nothing has changed but who is
    // still there. What could never fit, or not in the tenant's share, evicts
    // nobody.
    absl::Status Reserve(const std::vector<int>& layers, int64_t tokens) const;
    // For what the session keeps beside its blocks; null without room.
    KvCharge Charge(int64_t bytes) const;
    // Lets go. `used`: idleness counts from now on.
    void Release(bool used = false);

   private:
    friend class SessionStore;
    Pin(SessionStore& store, std::shared_ptr<SessionEntry> entry);
    SessionStore* store_ = nullptr;
    std::shared_ptr<SessionEntry> entry_;
  };

  // `clock` must outlive it. With a spiller: begins with the sessions that it
  // finds. Null: as without.
  SessionStore(const SessionStoreOptions& options, const Clock& clock);
  SessionStore(const SessionStoreOptions& options, const Clock& clock,
               std::unique_ptr<SessionSpiller> spiller);
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // An empty session, pinned: epoch 1, step 0. RESOURCE_EXHAUSTED (KV_MEMORY)
  // beyond max_sessions, and without memory for itself, if none can go.
  absl::StatusOr<Pin> Open(std::shared_ptr<const SessionSettings> settings,
                           const std::string& tenant);
  // NOT_FOUND (SESSION_NOT_HERE, SESSION_EXPIRED) or UNAVAILABLE
  // (SESSION_BUSY). Of one that is on disk also NOT_FOUND (SESSION_DAMAGED),
  // and as Reserve() if there is no room for it: then it stays there.
  absl::StatusOr<Pin> Acquire(const std::string& id, const std::string& tenant);
  // Another session with the same state at `position`, pinned: epoch 1, step 0.
  // FAILED_PRECONDITION as of KvSequence::Truncate(), INVALID_ARGUMENT for a
  // position that the session does not have; layers that have fewer tokens stay
  // as they are. RESOURCE_EXHAUSTED as Open(), and beyond the tenant's bytes.
  // `window` as there.
  absl::StatusOr<Pin> Fork(const Pin& of, std::optional<int64_t> position,
                           int64_t window, const std::string& tenant);
  // Whether it was here.
  bool Close(const std::string& id, const std::string& tenant);
  // NOT_FOUND as Acquire(), but never busy.
  absl::StatusOr<SessionSnapshot> Describe(const std::string& id,
                                           const std::string& tenant);
  // At most `count` of the tenant's in the order of ids, those after `after`.
  std::vector<SessionSnapshot> List(const std::string& tenant,
                                    const std::string& after, size_t count);
  // Forgets those that were idle for too long; when the next of those that are
  // not pinned is due.
  absl::Time Expire();

  // Gives idle memory back to the system.
  void Trim();
  // Whether sessions are spilled. Then SpillIdle() spills those that made no
  // step for spill_after, until one cannot be; SpillAll() all that are not
  // pinned, and gives how many could not be.
  bool spills() const { return spiller_ != nullptr; }
  void SpillIdle();
  int64_t SpillAll();
  using Totals = SessionTotals;
  Totals totals() const;
  // For whoever answers a call with it: the store itself counts none.
  void Count(SessionError error);

 private:
  absl::StatusOr<Pin> Admit(std::shared_ptr<const SessionSettings> settings,
                            SessionState state, const std::string& tenant);
  // Calls `take`, which takes `bytes`, evicting or spilling while that helps.
  absl::Status TakeOrEvict(int64_t bytes,
                           const std::function<absl::Status()>& take);
  absl::Status TakeBase(SessionEntry& entry);
  // As SessionTable::MakeRoom(), but for kOffered.
  bool MadeRoom(uint64_t seen, int64_t missing, int& misses);
  // Brings a pinned session back from disk.
  absl::Status Restore(SessionEntry& entry);
  absl::Status Fill(SessionEntry& entry, SessionFile& file);
  absl::StatusOr<std::vector<KvSequence>> TakeLayers(
      const SessionRecord& record, const KvLayout& layout);

  const SessionStoreOptions options_;
  const Clock& clock_;
  KvBlockPool pool_;  // outlives the sequences in the table
  const std::unique_ptr<SessionSpiller> spiller_;  // so does this
  const std::unique_ptr<SessionTable> table_;
};

}  // namespace attn
