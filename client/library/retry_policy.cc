#include "client/library/retry_policy.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

absl::Status Outside(const char* field, double value, const char* expected) {
  return FieldError(field, absl::StrCat(value), expected);
}

}  // namespace

// The negations also refuse a NaN.
absl::Status CheckRetryPolicy(const RetryPolicy& policy) {
  if (policy.max_attempts < 1) {
    return Outside("retry.max_attempts", policy.max_attempts, ">= 1");
  }
  if (policy.initial_backoff <= absl::ZeroDuration()) {
    return FieldError("retry.initial_backoff",
                      absl::FormatDuration(policy.initial_backoff), "> 0");
  }
  if (policy.max_backoff < policy.initial_backoff) {
    return FieldError("retry.max_backoff",
                      absl::FormatDuration(policy.max_backoff),
                      "at least retry.initial_backoff");
  }
  if (!(policy.multiplier >= 1)) {
    return Outside("retry.multiplier", policy.multiplier, ">= 1");
  }
  if (!(policy.jitter >= 0 && policy.jitter < 1)) {
    return Outside("retry.jitter", policy.jitter, "0 or more and below 1");
  }
  if (!(policy.max_tokens >= 0 && policy.max_tokens <= kMostRetryTokens)) {
    return Outside("retry.max_tokens", policy.max_tokens, "0 to 1000");
  }
  if (!(policy.token_ratio > 0 && policy.token_ratio <= kMostRetryTokens)) {
    return Outside("retry.token_ratio", policy.token_ratio,
                   "more than 0, up to 1000");
  }
  return absl::OkStatus();
}

}  // namespace attn
