#include "server/rpc/reply_status.h"

#include "proto/codec/status_codec.h"
#include "server/batching/refusal.h"

namespace attn {

grpc::Status ToReplyStatus(const absl::Status& status) {
  if (const auto delay = RetryDelayFor(status)) {
    return ToGrpcStatus(WithRetryDelay(status, *delay));
  }
  return ToGrpcStatus(status);
}

}  // namespace attn
