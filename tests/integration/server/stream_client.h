// The client's side of an AttendStream over a generated stub: what a client in
// any language does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/server/running_server.h"

namespace attn {

// The request without its tensors' data, as the header of a call.
wire::AttendStreamRequest HeaderOf(uint64_t call,
                                   const wire::AttendRequest& request);
// A message that brings `bytes` of a tensor.
wire::AttendStreamRequest ChunkOf(uint64_t call, wire::TensorSlot tensor,
                                  int64_t offset, const std::string& bytes);
// The data of q, k, v and the inputs, in pieces of `chunk_bytes` at most.
std::vector<wire::AttendStreamRequest> ChunksOf(
    uint64_t call, const wire::AttendRequest& request, size_t chunk_bytes);
wire::AttendStreamRequest WholeOf(uint64_t call,
                                  const wire::AttendRequest& request);
wire::AttendStreamRequest CancelOf(uint64_t call);

// The whole answer to a call.
struct StreamAnswer {
  uint64_t call = 0;
  // Code 0: the response holds.
  wire::CallStatus status;
  wire::AttendResponse response;
  // The messages that it came in, and the longest of them.
  int messages = 0;
  size_t longest_message = 0;

  grpc::StatusCode code() const {
    return static_cast<grpc::StatusCode>(status.code());
  }
};

// Ends by itself after a minute: a guard against a test that hangs.
// Thread-compatible.
class StreamClient {
 public:
  explicit StreamClient(RunningServer& server);
  ~StreamClient();

  // False: the stream has ended.
  bool Write(const wire::AttendStreamRequest& message);
  bool Write(const std::vector<wire::AttendStreamRequest>& messages);
  bool Call(uint64_t call, const wire::AttendRequest& request) {
    return Write(WholeOf(call, request));
  }
  // The next answer, its chunks put in place; nothing: the stream has ended.
  std::optional<StreamAnswer> Next();
  // The answers to come, by call, until there are `count`.
  std::map<uint64_t, StreamAnswer> Take(size_t count);
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // Reads to the end.
  grpc::Status Finish();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<wire::AttentionService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::AttendStreamRequest,
                                           wire::AttendStreamResponse>>
      stream_;
  std::map<uint64_t, StreamAnswer> partial_;
  bool finished_ = false;
};

}  // namespace attn
