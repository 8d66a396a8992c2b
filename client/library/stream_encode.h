// A call as the messages of an AttendStream.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/library/slice_loan.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/attend_codec.h"

namespace attn {

struct StreamCallOptions {
  uint64_t call = 1;
  absl::Duration timeout = absl::Seconds(60);
  // Of the messages: a call that is larger goes as a header and chunks.
  int64_t max_message_bytes = int64_t{256} << 20;
  // Of the answer's messages; 0: as large as the server makes them.
  int64_t max_answer_message_bytes = 0;
};

// With `loan`, large tensors are sent from where they are; without, the
// messages own copies.
std::vector<grpc::ByteBuffer> EncodeStreamCall(const AttendMessage& message,
                                               const StreamCallOptions& options,
                                               const SliceLoan* loan);

grpc::ByteBuffer EncodeStreamCancel(uint64_t call);

}  // namespace attn
