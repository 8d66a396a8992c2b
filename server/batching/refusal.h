// Refusals: why a request was not let in, as a typed status.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attn {

enum class Refusal : uint8_t {
  kQueueFull,           // RESOURCE_EXHAUSTED, worth a retry here
  kMemory,              // RESOURCE_EXHAUSTED, worth a retry here
  kTenantQuota,         // RESOURCE_EXHAUSTED, worth a retry here
  kTooLarge,            // RESOURCE_EXHAUSTED, never fits
  kDraining,            // UNAVAILABLE, worth a retry elsewhere
  kDeadlineExpired,     // DEADLINE_EXCEEDED
  kDeadlineUnmeetable,  // DEADLINE_EXCEEDED, before it has come
};

// The status of `refusal`; it remembers why.
absl::Status Refuse(Refusal refusal, absl::string_view message);

// The reason that Refuse() put into `status`.
std::optional<Refusal> RefusalOf(const absl::Status& status);

// How long to wait before a retry is worth it; absent where it is not.
std::optional<absl::Duration> RetryDelayFor(const absl::Status& status);

}  // namespace attn
