#include "server/batching/refusal.h"

#include <string>

#include "absl/strings/cord.h"

namespace attn {
namespace {

constexpr char kPayload[] = "attn/refusal";

// Long enough for a queue of small requests to move, short enough for a person
// not to notice.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(50);

absl::StatusCode CodeOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kDraining:
      return absl::StatusCode::kUnavailable;
    case Refusal::kDeadlineExpired:
    case Refusal::kDeadlineUnmeetable:
      return absl::StatusCode::kDeadlineExceeded;
    case Refusal::kQueueFull:
    case Refusal::kMemory:
    case Refusal::kTenantQuota:
    case Refusal::kTooLarge:
      break;
  }
  return absl::StatusCode::kResourceExhausted;
}

}  // namespace

absl::Status Refuse(Refusal refusal, absl::string_view message) {
  absl::Status status(CodeOf(refusal), message);
  const std::string reason(1, static_cast<char>(refusal));
  status.SetPayload(kPayload, absl::Cord(reason));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value() || payload->size() != 1) return std::nullopt;
  return static_cast<Refusal>((*payload)[0]);
}

std::optional<absl::Duration> RetryDelayFor(const absl::Status& status) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (refusal == Refusal::kQueueFull || refusal == Refusal::kMemory ||
      refusal == Refusal::kTenantQuota) {
    return kRetryDelay;
  }
  return std::nullopt;
}

}  // namespace attn
