#include "server/rpc/watched_reactor.h"

#include <cstdint>

#include "server/rpc/reply_status.h"

namespace attn {

void WatchedReactor::Reply(const absl::Status& status) {
  // What says no more than a status never waits for its client.
  if (status.ok()) {
    watch_.Sending(reply_, call_, deadline_,
                   static_cast<int64_t>(response_.Length()));
  }
  Finish(ToReplyStatus(status));
}

void WatchedReactor::OnDone() {
  Ended(watch_.Sent(reply_));
  delete this;
}

grpc::ServerUnaryReactor* ReplyNow(ReplyWatch& watch,
                                   grpc::CallbackServerContext& call,
                                   absl::Time deadline,
                                   const grpc::ByteBuffer& response,
                                   const absl::Status& status) {
  auto* reactor = new WatchedReactor(watch, call, deadline, response);
  reactor->Reply(status);
  return reactor;
}

}  // namespace attn
