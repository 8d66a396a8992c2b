// What a server may have of a session otherwise than its client, because
// answers never came, and how both come to agree again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/library/replay_history.h"
#include "client/library/session_places.h"

namespace attn {

// Of one place; a session that is opened elsewhere has none. Invariant: as long
// as a rollback may have been done, no other call of its epoch is made but the
// same rollback, which the server then answers as before. Thread-compatible.
class SessionDoubts {
 public:
  // A step of layers that had `position` tokens failed, and may have been made.
  void StepFailed(int64_t position);
  // A step was answered: of its number there is no other.
  void StepAnswered() { step_.reset(); }

  // Whether a step may have been made that failed here.
  bool has_step() const { return step_.has_value(); }
  // Whether Restore() must come before the next call.
  bool must_restore() const { return rollback_ || missing_; }
  // Tokens of each layer, or all that it has, that are the same on both sides;
  // absent: all.
  std::optional<int64_t> agreed() const;

  // Rolls the session back, at most to agreed(). Nothing is in doubt once the
  // client has forgotten the same tokens.
  absl::Status RollBack(int64_t position, absl::Time end, SessionPlace& place);
  // Gives the session the tokens of `history` again from agreed() on.
  // FAILED_PRECONDITION if they are not there any more.
  absl::Status Restore(const ReplayHistory& history,
                       const SessionPlaces& places, absl::Time end,
                       SessionPlace& place);

 private:
  absl::Status Send(int64_t position, absl::Time end, SessionPlace& place);

  // Position of a rollback that was sent with the place's epoch, and may have
  // been done.
  std::optional<int64_t> rollback_;
  // The server may lack tokens from here on.
  std::optional<int64_t> missing_;
  // The server may have other tokens from here on.
  std::optional<int64_t> step_;
};

}  // namespace attn
