// Errors of sessions: why, as google.rpc.ErrorInfo says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attn {

// The reason that an error from here carries, e.g. "SESSION_NOT_HERE".
std::optional<std::string> SessionReasonOf(const absl::Status& status);

// How long to wait before a retry is worth it; absent where it is not.
std::optional<absl::Duration> SessionRetryDelay(const absl::Status& status);

// NOT_FOUND. The id as it came.
absl::Status SessionNotHere(absl::string_view id);
absl::Status SessionExpired(absl::string_view id);
absl::Status SessionDamaged(absl::string_view id);

// UNAVAILABLE, worth a retry.
absl::Status SessionBusy(absl::string_view id);

// FAILED_PRECONDITION.
absl::Status SessionWrongEpoch(uint64_t got, uint64_t expected);
// `expected` is the next step.
absl::Status SessionStepGap(uint64_t got, uint64_t expected);
// A step of a layer that has `expected` tokens before it.
absl::Status SessionPositionGap(int64_t got, int64_t expected, int layer);
// The last step, with other contents than it had.
absl::Status SessionStepReplaced(uint64_t step);

// RESOURCE_EXHAUSTED: a layer has `length` tokens, and `tokens` more exceed the
// session's own bound.
absl::Status SessionFull(int layer, int64_t length, int64_t tokens,
                         int64_t max_tokens);

// Whether waiting helps.
enum class KvShortage : uint8_t {
  kPasses,  // others hold what is missing
  kStays,   // it would never fit
};

// RESOURCE_EXHAUSTED, reason KV_MEMORY. The message names the bound.
absl::Status KvMemory(KvShortage shortage, absl::string_view message);

}  // namespace attn
