// Ends unary calls whose clients do not take their replies: gRPC itself would
// hold a reply, and with it the call's place and memory, for ever.
#pragma once

#include <cstdint>
#include <list>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"
#include "grpcpp/server_context.h"
#include "server/batching/alarm.h"

namespace attn {

// Until when a reply of `bytes` that is sent `now` may be on its way: `grace`
// after its call's deadline, which is no earlier than now and no later than in
// an hour, and a second more for each MiB, as its client may be slow.
absl::Time ReplySendBy(absl::Time now, absl::Time deadline,
                       absl::Duration grace, int64_t bytes);

// A reply, from its call's beginning to its end. All but making it is the
// watch's, under its lock.
class WatchedReply {
 public:
  WatchedReply() = default;
  WatchedReply(const WatchedReply&) = delete;
  WatchedReply& operator=(const WatchedReply&) = delete;

 private:
  friend class ReplyWatch;

  // Null: not on its way.
  grpc_call* call_ = nullptr;
  absl::Time send_by_;
  bool cut_ = false;
  // Moves into the watch's list and back: a reply on its way must not fail.
  std::list<WatchedReply*> node_{this};
  const std::list<WatchedReply*>::iterator place_ = node_.begin();
};

// One thread looks at all replies now and then, so that no call pays for a
// timer of its own. Thread-safe; never blocks for long.
class ReplyWatch {
 public:
  // A reply may take until ReplySendBy(), and `grace` again before it is looked
  // at. `clock`, a monotonic one, must outlive this.
  ReplyWatch(const Clock& clock, absl::Duration grace);
  // No reply is on its way any more.
  ~ReplyWatch();
  ReplyWatch(const ReplyWatch&) = delete;
  ReplyWatch& operator=(const ReplyWatch&) = delete;

  // Before gRPC is given it, which is of `bytes`.
  void Sending(WatchedReply& reply, grpc::CallbackServerContext& call,
               absl::Time deadline, int64_t bytes);
  // When gRPC is done with the call, whether or not it had a reply to send.
  // DEADLINE_EXCEEDED: the client did not take it.
  absl::Status Sent(WatchedReply& reply);

 private:
  void Look();
  // Null: none is late any more. A reference for the caller, since its reactor
  // may be gone before the call is ended.
  grpc_call* TakeLate(absl::Time now);

  const Clock& clock_;
  const absl::Duration grace_;
  Mutex mutex_;
  std::list<WatchedReply*> replies_ ATTN_GUARDED_BY(mutex_);
  // Those that were too late, until gRPC is done with them.
  std::list<WatchedReply*> cut_replies_ ATTN_GUARDED_BY(mutex_);
  // The alarm is set.
  bool watching_ ATTN_GUARDED_BY(mutex_) = false;
  Alarm alarm_;
};

}  // namespace attn
