// What an AttendStream needs of whoever carries its messages.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace attn {

// Called by one thread at a time but for Cut(); none blocks. End() is the last.
class StreamTransport {
 public:
  virtual ~StreamTransport() = default;

  // Leads to one Received() or ReceivedLast().
  virtual void Receive() = 0;
  // Leads to one Sent() or NotSent(); `message` lives until then.
  virtual void Send(const grpc::ByteBuffer& message) = 0;
  virtual void End(const absl::Status& status) = 0;
  // Gives up what is being sent and received. Before End(), on any thread.
  virtual void Cut() = 0;
};

}  // namespace attn
