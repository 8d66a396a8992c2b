// One AttendStream as a client sees it: calls go out, answers find them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/answer_assembly.h"
#include "client/library/raw_call.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "proto/codec/attend_codec.h"

namespace attn {

struct StreamConnectionOptions {
  // Of the whole stream; infinite: none.
  absl::Duration deadline = absl::InfiniteDuration();
  // Open on the server at once; more wait here.
  int64_t max_calls = 64;
  // Of one call, all its tensors together.
  int64_t max_response_bytes = int64_t{16} << 30;
};

// The messages of the calls take turns. `done` of a call is called exactly
// once, on a thread of gRPC's or of whoever cancels, and must not block.
// Thread-safe.
class StreamConnection
    : public std::enable_shared_from_this<StreamConnection>,
      private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using Done = std::function<void(absl::StatusOr<AttendResult>)>;

  static std::shared_ptr<StreamConnection> Open(
      const RawChannel& channel, const StreamConnectionOptions& options);

  // Sends the messages that `encode` makes of the call's number. The call ends
  // with DEADLINE_EXCEEDED after `timeout`. The call's number.
  using Encode = std::function<std::vector<grpc::ByteBuffer>(uint64_t call)>;
  uint64_t Send(const Encode& encode, absl::Duration timeout, Done done);
  // Ends the call with CANCELLED, unless it has ended.
  void Cancel(uint64_t call);

  // The stream ends when its calls have.
  void Close();
  // Ends it now; all calls fail.
  void Abort();
  // Waits for the end, until every `done` has returned: OK, or why the stream
  // failed.
  absl::Status WaitUntilEnded();

 private:
  struct Call {
    std::vector<grpc::ByteBuffer> messages;
    size_t next = 0;
    // Null: given up; its answer is passed over.
    Done done;
    std::shared_ptr<grpc::Alarm> alarm;
    // Its messages are there; the server counts it as open.
    bool ready = false;
    bool open = false;
    // Touched by the reading thread alone.
    AnswerAssembly answer;
  };
  using CallPtr = std::shared_ptr<Call>;
  enum class Step { kNone, kWrite, kWritesDone, kRelease };

  StreamConnection(std::string address, const StreamConnectionOptions& options)
      : address_(std::move(address)), options_(options) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  absl::Status Handle(grpc::ByteBuffer& message);
  void GiveUp(uint64_t number, const absl::Status& why);
  void Answer(uint64_t number, const absl::Status& status);
  void SetAlarm(uint64_t number, absl::Duration timeout,
                const std::shared_ptr<grpc::Alarm>& alarm);

  // Calls `done`, which TakeDone() gave, unless it is null.
  void Tell(const Done& done, absl::StatusOr<AttendResult> result);

  // With the lock held.
  Done TakeDone(Call& call);
  Step NextStep();
  bool TakeMessage();
  void OpenWaiting();
  // Takes steps until there is none left; one thread at a time does.
  void Pump();

  const std::string address_;
  const StreamConnectionOptions options_;
  grpc::ByteBuffer read_;
  // What gRPC holds of this, until OnDone().
  std::shared_ptr<StreamConnection> self_;

  std::mutex mutex_;
  // Holds the channel too. Null: the stream has ended.
  std::shared_ptr<grpc::ClientContext> context_;
  std::condition_variable ended_changed_;
  // Not answered yet, those that were given up after they were opened too.
  std::map<uint64_t, CallPtr> calls_;
  uint64_t last_call_ = 0;
  int64_t open_ = 0;
  // Numbers: not opened; with messages to send; to be cancelled.
  std::deque<uint64_t> waiting_;
  std::deque<uint64_t> sending_;
  std::deque<uint64_t> cancels_;
  grpc::ByteBuffer written_;
  bool writing_ = false;
  bool closing_ = false;
  bool writes_done_ = false;
  bool broken_ = false;
  bool released_ = false;
  bool pumping_ = false;
  // Calls of a `done` that have not returned.
  int64_t telling_ = 0;
  // gRPC has ended the stream; and every call was told.
  bool failed_ = false;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace attn
