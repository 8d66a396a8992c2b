#include "server/rpc/reply_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

// As for the calls of a stream.
constexpr absl::Duration kLongestTimeout = absl::Hours(1);
// A client that takes a reply more slowly is like one that does not.
constexpr double kLeastBytesPerSecond = 1 << 20;

constexpr char kNotTaken[] = "the client did not take the answer in time";

}  // namespace

absl::Time ReplySendBy(absl::Time now, absl::Time deadline,
                       absl::Duration grace, int64_t bytes) {
  const absl::Duration taking =
      absl::Seconds(static_cast<double>(bytes) / kLeastBytesPerSecond);
  return std::clamp(deadline, now, now + kLongestTimeout) + grace + taking;
}

ReplyWatch::ReplyWatch(const Clock& clock, absl::Duration grace)
    : clock_(clock), grace_(grace), alarm_(clock, [this] { Look(); }) {
  // Look() may hold a call for longer than there is a server.
  grpc_init();
}

ReplyWatch::~ReplyWatch() {
  alarm_.Stop();
  grpc_shutdown();
}

void ReplyWatch::Sending(WatchedReply& reply, grpc::CallbackServerContext& call,
                         absl::Time deadline, int64_t bytes) {
  const absl::Time now = clock_.Now();
  {
    const MutexLock lock(mutex_);
    reply.call_ = call.c_call();
    reply.send_by_ = ReplySendBy(now, deadline, grace_, bytes);
    replies_.splice(replies_.end(), reply.node_);
    if (std::exchange(watching_, true)) return;
  }
  alarm_.Set(now + grace_);
}

absl::Status ReplyWatch::Sent(WatchedReply& reply) {
  {
    const MutexLock lock(mutex_);
    if (reply.call_ == nullptr) return absl::OkStatus();
    reply.node_.splice(reply.node_.end(), reply.cut_ ? cut_replies_ : replies_,
                       reply.place_);
    reply.call_ = nullptr;
    if (!reply.cut_) return absl::OkStatus();
  }
  return Refuse(Refusal::kDeadlineExpired,
                absl::StrCat(kNotTaken, " (", absl::FormatDuration(grace_),
                             " and 1s for each MiB)"));
}

void ReplyWatch::Look() {
  const absl::Time now = clock_.Now();
  // One by one: a list of them would take memory, for want of which this thread
  // would end the process. Not under the lock, which gRPC may come back for.
  while (grpc_call* const call = TakeLate(now)) {
    grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED, kNotTaken,
                                 nullptr);
    grpc_call_unref(call);
  }
  {
    const MutexLock lock(mutex_);
    watching_ = !replies_.empty();
    if (!watching_) return;
  }
  alarm_.Set(now + grace_);
}

grpc_call* ReplyWatch::TakeLate(absl::Time now) {
  const MutexLock lock(mutex_);
  for (WatchedReply* reply : replies_) {
    if (reply->send_by_ > now) continue;
    reply->cut_ = true;
    cut_replies_.splice(cut_replies_.end(), replies_, reply->place_);
    grpc_call_ref(reply->call_);
    return reply->call_;
  }
  return nullptr;
}

}  // namespace attn
