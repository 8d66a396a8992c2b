// Many Attend calls on one stream: pipelined, answered as they end, and as
// large as the server's memory allows rather than as one message.
//
//   auto stream = client.OpenStream();
//   stream->AttendAsync(first, {}, [](absl::StatusOr<AttendResult> r) {...});
//   absl::StatusOr<AttendResult> second = stream->Attend(message);
//   absl::Status ended = stream->Close();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "client/library/slice_loan.h"
#include "client/library/stream_connection.h"
#include "proto/codec/attend_codec.h"

namespace attn {

struct StreamOptions {
  // Of the whole stream, from now; infinite: none. Calls have their own beside
  // it.
  absl::Duration deadline = absl::InfiniteDuration();
  // Of calls that name none.
  absl::Duration call_deadline = absl::Seconds(60);
  // Largest message either way: what is larger travels in chunks. Servers want
  // 64 KiB at least.
  int64_t max_message_bytes = int64_t{256} << 20;
  // Open on the server at once; more wait here.
  int64_t max_calls = 64;
  // Largest response of a call, all its tensors together.
  int64_t max_response_bytes = int64_t{16} << 30;
};

// A failing call leaves the others alone; its error is as of a unary Attend.
// When the stream fails, all calls fail with its error, and a new one is to be
// opened. Thread-safe; not to be destroyed in a callback.
class AttendStream {
 public:
  // AttentionClient::OpenStream() asks the server for its limits. Does not wait
  // for the server.
  AttendStream(const RawChannel& channel, const StreamOptions& options);
  // Ends the stream; calls that are not answered fail.
  ~AttendStream();
  AttendStream(const AttendStream&) = delete;
  AttendStream& operator=(const AttendStream&) = delete;

  // Computes one call and waits for it. The tensors of `message` are sent from
  // where they are; they may be reused once this returns, whatever the outcome.
  // If the transport does not let go of them within seconds of an error, the
  // stream is ended. `deadline`: zero is the stream's for its calls.
  absl::StatusOr<AttendResult> Attend(
      const AttendMessage& message,
      absl::Duration deadline = absl::ZeroDuration());

  // As Attend, without waiting. The tensors are copied before this returns.
  // `done` is called exactly once, on a thread of the library's or the one that
  // cancels, and must not block. The number to cancel the call by.
  using Callback = std::function<void(absl::StatusOr<AttendResult>)>;
  uint64_t AttendAsync(const AttendMessage& message, absl::Duration deadline,
                       Callback done);
  // Ends a call with CANCELLED, unless it has ended.
  void Cancel(uint64_t call) { connection_->Cancel(call); }

  // Waits until every call is answered, then for the end of the stream: OK, or
  // why it failed. Calls that come later fail.
  absl::Status Close();

 private:
  uint64_t Send(const AttendMessage& message, absl::Duration deadline,
                const SliceLoan* loan, Callback done);

  // Outlives the connection.
  const RawChannel channel_;
  const StreamOptions options_;
  const std::shared_ptr<StreamConnection> connection_;
};

}  // namespace attn
