// The calls of one AttendStream: what is open, what is to be sent, when to read
// on. Knows no reactor, so that tests can play the transport.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/runtime/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/stream_message.h"
#include "server/rpc/attend_stream_job.h"
#include "server/rpc/attend_stream_options.h"
#include "server/rpc/call_job.h"
#include "server/rpc/caller.h"
#include "server/rpc/open_stream_call.h"
#include "server/rpc/stream_transport.h"

namespace attn {

// Invariants:
//  * every call that was opened is answered exactly once, unless the client is
//    gone;
//  * one message is received at a time, and none while as many calls are open
//    as may be, unless one of them waits for its chunks;
//  * one message is sent at a time, the answers taking turns; an answer's call
//    keeps its bytes booked until its last message is sent, a failed one's not;
//  * answers that are not taken in time end the stream as if the client were
//    gone;
//  * the stream ends once, when no call is open any more.
// Thread-safe; never blocks.
class AttendStreamCalls
    : public std::enable_shared_from_this<AttendStreamCalls> {
 public:
  // Who the caller is now; called in Received() only.
  using Identify = std::function<absl::StatusOr<Tenant>()>;

  // All must outlive this but `transport`, which must live until End(). A
  // caller without a deadline has the infinite future. Without `identify` the
  // caller stays who it is.
  AttendStreamCalls(const CallContext& context,
                    const AttendStreamOptions& options, Caller caller,
                    StreamTransport& transport, Identify identify = nullptr);

  // Once, before all else. Ends the stream if the caller must not be let in.
  void Begin();

  // The transport: a message, whose slices are let go; the client will send no
  // more; a message was sent, or will not be; the client is gone, at any time.
  void Received(grpc::ByteBuffer& message);
  void ReceivedLast();
  void Sent();
  void NotSent();
  void Gone();

  // Takes no more messages, and ends with `status` when what is open has been
  // answered; what waits for chunks is given up.
  void EndWith(const absl::Status& status);

 private:
  using Job = std::shared_ptr<AttendStreamJob>;

  enum class Step { kNone, kReceive, kSend, kEnd };
  using Calls = std::map<uint64_t, OpenStreamCall>;

  // What a message says is done when this returns, but for a call whose request
  // it brings: to be given to Start().
  Job Handle(grpc::ByteBuffer& message);
  Job Open(const StreamMessage& opening, grpc::ByteBuffer& message);
  void Start(const Job& job, grpc::ByteBuffer& message);
  void NoteUnderWay(const Job& job);
  // Cancels a call that collects nothing; null: it must get under way first.
  static Job ToCancel(OpenStreamCall& call);
  void Collect(uint64_t call, const Job& job);
  void TakeChunk(const StreamMessage& part, grpc::ByteBuffer& message);
  // Finds where the chunk belongs, or what is wrong. Null: nothing to do.
  absl::StatusOr<std::byte*> Place(const StreamMessage& part, int64_t size,
                                   Job& job);
  void CompleteIfAll(uint64_t call, const Job& job);
  void CancelCall(uint64_t call);
  void Expire(uint64_t call);
  void Replied(uint64_t call, const absl::Status& status,
               grpc::ByteBuffer& response);
  QueuedAnswer MakeAnswer(uint64_t call, OpenStreamCall& open,
                          grpc::ByteBuffer& response);
  // Nobody takes answers any more.
  void Lose(const absl::Status& why);
  void Watch(const std::shared_ptr<grpc::Alarm>& alarm, absl::Duration left);
  void CheckSending();

  Job MakeJob(const StreamMessage& opening, const absl::Status& refusal);
  absl::Status CheckOpening(const StreamMessage& opening);
  absl::Time DeadlineOf(const StreamMessage& opening) const;
  // Ends the stream for a fault of the client's.
  void Fault(const absl::Status& status);

  // Takes the next step of a call that waits for chunks.
  OpenStreamCall Claim(OpenStreamCall& call) ATTN_REQUIRES(mutex_);
  std::vector<OpenStreamCall> ClaimAll() ATTN_REQUIRES(mutex_);
  int64_t OpenCount() const ATTN_REQUIRES(mutex_);
  // What is being sent must have been by then.
  absl::Time SendLimit() const ATTN_REQUIRES(mutex_);
  bool MayReceive() const ATTN_REQUIRES(mutex_);
  bool MayEnd() const ATTN_REQUIRES(mutex_);
  Step NextStep() ATTN_REQUIRES(mutex_);
  // Takes steps until there is none left; one thread at a time does.
  void Pump();

  const CallContext& context_;
  const AttendStreamOptions options_;
  const Caller caller_;
  StreamTransport& transport_;
  const Identify identify_;
  // When the message that is handled came.
  absl::Time arrived_;

  Mutex mutex_;
  Calls calls_ ATTN_GUARDED_BY(mutex_);
  int64_t collecting_ ATTN_GUARDED_BY(mutex_) = 0;
  // Threads that no transport waits for, with something of a job's in hand.
  int64_t leaving_ ATTN_GUARDED_BY(mutex_) = 0;
  uint64_t last_call_ ATTN_GUARDED_BY(mutex_) = 0;
  std::deque<QueuedAnswer> answers_ ATTN_GUARDED_BY(mutex_);
  // What is being sent; its message does not move.
  QueuedAnswer sending_ ATTN_GUARDED_BY(mutex_);
  bool is_sending_ ATTN_GUARDED_BY(mutex_) = false;
  absl::Time sending_since_ ATTN_GUARDED_BY(mutex_);
  // Looks after what is being sent; one for many messages.
  std::shared_ptr<grpc::Alarm> watch_ ATTN_GUARDED_BY(mutex_);
  bool is_receiving_ ATTN_GUARDED_BY(mutex_) = false;
  bool is_handling_ ATTN_GUARDED_BY(mutex_) = false;
  bool received_last_ ATTN_GUARDED_BY(mutex_) = false;
  bool gone_ ATTN_GUARDED_BY(mutex_) = false;
  // Why.
  absl::Status lost_ ATTN_GUARDED_BY(mutex_);
  bool ending_ ATTN_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ATTN_GUARDED_BY(mutex_);
  bool ended_ ATTN_GUARDED_BY(mutex_) = false;
  bool pumping_ ATTN_GUARDED_BY(mutex_) = false;
};

}  // namespace attn
