#include "client/library/attend_stream.h"

#include <future>

#include "client/library/stream_encode.h"

namespace attn {
namespace {

// A server that reads nothing for so long after a call has ended is stuck.
constexpr absl::Duration kReleaseGrace = absl::Seconds(5);

}  // namespace

AttendStream::AttendStream(const RawChannel& channel,
                           const StreamOptions& options)
    : channel_(channel),
      options_(options),
      connection_(StreamConnection::Open(
          channel, {.deadline = options.deadline,
                    .max_calls = options.max_calls,
                    .max_response_bytes = options.max_response_bytes})) {}

AttendStream::~AttendStream() {
  connection_->Close();
  connection_->Abort();
  connection_->WaitUntilEnded().IgnoreError();
}

absl::Status AttendStream::Close() {
  connection_->Close();
  return connection_->WaitUntilEnded();
}

uint64_t AttendStream::Send(const AttendMessage& message,
                            absl::Duration deadline, const SliceLoan* loan,
                            Callback done) {
  const absl::Duration timeout =
      deadline > absl::ZeroDuration() ? deadline : options_.call_deadline;
  const auto encode = [&](uint64_t call) {
    return EncodeStreamCall(
        message,
        {.call = call,
         .timeout = timeout,
         .max_message_bytes = options_.max_message_bytes,
         .max_answer_message_bytes = options_.max_message_bytes},
        loan);
  };
  return connection_->Send(encode, timeout, std::move(done));
}

absl::StatusOr<AttendResult> AttendStream::Attend(const AttendMessage& message,
                                                  absl::Duration deadline) {
  const SliceLoan loan;
  // Shared: the callback may still be in it when the answer is taken.
  const auto promise =
      std::make_shared<std::promise<absl::StatusOr<AttendResult>>>();
  auto answer = promise->get_future();
  Send(message, deadline, &loan, [promise](absl::StatusOr<AttendResult> got) {
    promise->set_value(std::move(got));
  });
  absl::StatusOr<AttendResult> result = answer.get();
  if (!loan.WaitUntilOver(kReleaseGrace)) {
    connection_->Abort();
    loan.WaitUntilOver(absl::InfiniteDuration());
  }
  return result;
}

uint64_t AttendStream::AttendAsync(const AttendMessage& message,
                                   absl::Duration deadline, Callback done) {
  return Send(message, deadline, nullptr, std::move(done));
}

}  // namespace attn
