// Steps of sessions over one stream: the next may be on its way before the last
// was answered.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/session_codec.h"

namespace attn {

// Reads one answer of Step.
absl::StatusOr<StepResult> DecodeStep(const grpc::ByteBuffer& response);
// Reads one answer of StepStream: the same, or the error that its step ended
// with.
absl::StatusOr<StepResult> DecodeStreamStep(const grpc::ByteBuffer& answer);

inline constexpr char kStepStreamMethod[] =
    "/attention.v1.SessionService/StepStream";

// Answers come in the order of the steps. A step that fails leaves the others
// alone; when the stream itself fails, every call here does from then on: open
// another, and send again what was not answered.
//
// One thread may send while another receives; otherwise thread-compatible.
class SessionStepStream {
 public:
  // Of SessionClient::OpenStepStream(). The deadline is how long Receive()
  // waits; the route is the stream's.
  SessionStepStream(const RawChannel& channel, const RawCallOptions& options);
  // Ends the stream; steps that were not answered may have been made or not.
  ~SessionStepStream();
  SessionStepStream(const SessionStepStream&) = delete;
  SessionStepStream& operator=(const SessionStepStream&) = delete;

  // Copies the tensors and returns at once.
  absl::Status Send(const StepMessage& message);
  // Waits for the answer to the first step that has none yet: it, or the error
  // that the step ended with. FAILED_PRECONDITION: every step was answered.
  // DEADLINE_EXCEEDED, if broken(): it did not come in time, and the stream is
  // over.
  absl::StatusOr<StepResult> Receive();
  // Whether the stream is over, as against a step of it that failed.
  bool broken() const;

 private:
  class Connection;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace attn
