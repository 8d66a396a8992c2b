#include "server/rpc/reply_status.h"

#include <utility>

#include "proto/codec/status_codec.h"
#include "server/batching/refusal.h"
#include "server/sessions/session_errors.h"

namespace attn {

grpc::Status ToReplyStatus(const absl::Status& status) {
  if (const auto delay = RetryDelayFor(status)) {
    return ToGrpcStatus(WithRetryDelay(status, *delay));
  }
  if (const auto reason = SessionReasonOf(status)) {
    absl::Status marked = WithReason(status, *reason);
    if (const auto delay = SessionRetryDelay(status)) {
      marked = WithRetryDelay(std::move(marked), *delay);
    }
    return ToGrpcStatus(marked);
  }
  return ToGrpcStatus(status);
}

}  // namespace attn
