#include "server/sessions/session_errors.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kReasonPayload[] = "attn/session-reason";
constexpr char kRetryPayload[] = "attn/session-retry-ms";

// A step of a decode takes about as long.
constexpr int64_t kBusyRetryMs = 10;
// Sessions grow idle in seconds.
constexpr int64_t kMemoryRetryMs = 1000;

// Twice an id: what is longer is none, and is not repeated whole.
constexpr size_t kMaxQuotedSize = 64;

std::string QuotedId(absl::string_view id) {
  const bool cut = id.size() > kMaxQuotedSize;
  return absl::StrCat("\"", absl::CHexEscape(id.substr(0, kMaxQuotedSize)),
                      cut ? "...\"" : "\"");
}

absl::Status WithReason(absl::StatusCode code, absl::string_view reason,
                        absl::string_view message) {
  absl::Status status(code, message);
  status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

absl::Status WorthRetry(absl::Status status, int64_t delay_ms) {
  status.SetPayload(kRetryPayload, absl::Cord(absl::StrCat(delay_ms)));
  return status;
}

}  // namespace

std::optional<std::string> SessionReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

std::optional<absl::Duration> SessionRetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryPayload);
  int64_t delay_ms = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &delay_ms)) {
    return std::nullopt;
  }
  return absl::Milliseconds(delay_ms);
}

absl::Status SessionNotHere(absl::string_view id) {
  return WithReason(
      absl::StatusCode::kNotFound, "SESSION_NOT_HERE",
      absl::StrCat("session_id: got ", QuotedId(id),
                   ", expected a session of this caller on this server"));
}

absl::Status SessionExpired(absl::string_view id) {
  return WithReason(
      absl::StatusCode::kNotFound, "SESSION_EXPIRED",
      absl::StrCat("session_id: got ", QuotedId(id),
                   ", which was idle for too long or made room for others, "
                   "expected a session that is here"));
}

absl::Status SessionDamaged(absl::string_view id) {
  return WithReason(
      absl::StatusCode::kNotFound, "SESSION_DAMAGED",
      absl::StrCat("session_id: got ", QuotedId(id),
                   ", whose file in --session-dir is damaged, expected a "
                   "session that can be read back"));
}

absl::Status SessionBusy(absl::string_view id) {
  return WorthRetry(
      WithReason(absl::StatusCode::kUnavailable, "SESSION_BUSY",
                 absl::StrCat("session_id: got ", QuotedId(id),
                              ", which another call is using, expected one "
                              "call of a session at a time")),
      kBusyRetryMs);
}

absl::Status SessionWrongEpoch(uint64_t got, uint64_t expected) {
  return WithReason(absl::StatusCode::kFailedPrecondition,
                    "SESSION_WRONG_EPOCH",
                    absl::StrCat("epoch: got ", got, ", expected ", expected,
                                 "; each rollback begins a new one"));
}

absl::Status SessionStepGap(uint64_t got, uint64_t expected) {
  const std::string again = expected == 0 ? "" : ", or the last one again";
  return WithReason(absl::StatusCode::kFailedPrecondition, "SESSION_STEP_GAP",
                    absl::StrCat("step: got ", got, ", expected ", expected,
                                 ", the next one", again));
}

absl::Status SessionPositionGap(int64_t got, int64_t expected, int layer) {
  return WithReason(absl::StatusCode::kFailedPrecondition, "SESSION_STEP_GAP",
                    absl::StrCat("position: got ", got, ", expected ", expected,
                                 ", the tokens of layer ", layer));
}

absl::Status SessionStepReplaced(uint64_t step) {
  return WithReason(
      absl::StatusCode::kFailedPrecondition, "SESSION_STEP_REPLACED",
      absl::StrCat("step: got ", step,
                   " again with other contents, expected those that it had, "
                   "or step ",
                   step + 1));
}

absl::Status SessionFull(int layer, int64_t length, int64_t tokens,
                         int64_t max_tokens) {
  return WithReason(
      absl::StatusCode::kResourceExhausted, "SESSION_FULL",
      absl::StrCat("max_tokens: got ", tokens, " more tokens for layer ", layer,
                   ", which has ", length, ", expected at most ", max_tokens,
                   " in all"));
}

absl::Status KvMemory(KvShortage shortage, absl::string_view message) {
  absl::Status status =
      WithReason(absl::StatusCode::kResourceExhausted, "KV_MEMORY", message);
  return shortage == KvShortage::kPasses
             ? WorthRetry(std::move(status), kMemoryRetryMs)
             : status;
}

}  // namespace attn
