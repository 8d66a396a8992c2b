// Unary calls of bytes: what the client library and the load tester are built
// on. A request that has been encoded once can be sent any number of times; its
// slices are counted references, so a send copies nothing.
//
//   grpc::ByteBuffer request = EncodeRequest(message);   // owns its bytes
//   channel.CallAsync(kAttendMethod, request, {.deadline = absl::Seconds(1)},
//                     [](const absl::Status& status,
//                        const grpc::ByteBuffer& response) { ... });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/call_route.h"
#include "client/library/channel_state.h"
#include "client/library/client_security.h"
#include "client/library/retry_policy.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/backward_codec.h"

namespace attn {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendBackwardMethod[] =
    "/attention.v1.AttentionService/AttendBackward";
inline constexpr char kAttendStreamMethod[] =
    "/attention.v1.AttentionService/AttendStream";
inline constexpr char kInspectMethod[] =
    "/attention.v1.AttentionService/Inspect";
inline constexpr char kPlanMethod[] = "/attention.v1.AttentionService/Plan";
inline constexpr char kGetServerInfoMethod[] =
    "/attention.v1.AttentionService/GetServerInfo";
inline constexpr char kHealthCheckMethod[] = "/grpc.health.v1.Health/Check";

// How a channel is made.
struct ChannelOptions {
  // One of the forms of server_address.h; calls go to several in turn.
  std::string address = "127.0.0.1:8001";
  // Largest response that is taken, below 2 GiB. The server bounds requests.
  int64_t max_response_bytes = int64_t{2} << 30;
  // Ping an idle connection this often; servers allow 10 s and more.
  absl::Duration keepalive = absl::Seconds(30);
  // Channels of a process with the same options share connections. Different
  // numbers get connections of their own.
  int connection = 0;
  ClientSecurity security{};
  // Of calls that may be made again: RawCallOptions::repeat.
  RetryPolicy retry{};
};

// How one call is made.
struct RawCallOptions {
  // From now, for all attempts together; 24 h at most.
  absl::Duration deadline = absl::Seconds(60);
  // Whether the call may be made again if it fails.
  Repeat repeat = Repeat::kNever;
  // Slices of the request that are the caller's memory: Call() returns when the
  // transport has let go of them. Null: there are none.
  const std::atomic<int>* borrowed_slices = nullptr;
  CallRoute route{};
};

using RawCallback = std::function<void(const absl::Status& status,
                                       const grpc::ByteBuffer& response)>;

// Requests from here on are large.
inline constexpr size_t kLargeRequestBytes = size_t{64} << 10;

// Two connections to a server, one for small requests and one for large ones: a
// small call that shared one with an upload of 16 MiB would wait behind it.
// Each is made on first use and remade when lost. Copies share them.
// Thread-safe.
class RawChannel {
 public:
  // INVALID_ARGUMENT for an address or an option that cannot be meant. Does
  // not wait for the server.
  static absl::StatusOr<RawChannel> Create(const ChannelOptions& options);

  // Sends, waits for the answer, returns it. Between attempts it waits too.
  absl::StatusOr<grpc::ByteBuffer> Call(const char* method,
                                        grpc::ByteBuffer request,
                                        const RawCallOptions& options) const;

  // Returns at once; `done` is called exactly once, on a thread of gRPC's, and
  // must not block. The slices of `request` are kept until then; keep this
  // channel, or a copy, and `method` as long.
  void CallAsync(const char* method, const grpc::ByteBuffer& request,
                 const RawCallOptions& options, RawCallback done) const;

  // Shows the channel's token, if it has one. Every call does, once.
  void Authorize(grpc::ClientContext& context) const;
  // Prepares a bidirectional stream on the connection of large requests;
  // reactor->StartCall() begins it. `context` must outlive it.
  using StreamReactor =
      grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  void PrepareStream(const char* method, grpc::ClientContext& context,
                     StreamReactor* reactor) const;

  const std::string& address() const { return state_->address; }

 private:
  explicit RawChannel(std::shared_ptr<ChannelState> state)
      : state_(std::move(state)) {}

  grpc::GenericStub& StubFor(const grpc::ByteBuffer& request) const;
  // One attempt of Call().
  struct Attempt {
    absl::Time end;
    const CallRoute& route;
    grpc::CompletionQueue& queue;
  };
  grpc::Status TryOnce(const char* method, const grpc::ByteBuffer& request,
                       const Attempt& attempt,
                       grpc::ByteBuffer& response) const;

  std::shared_ptr<ChannelState> state_;
};

// The bytes of a message without tensors.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// The bytes of an encoded message. With copies of the tensors: the result owns
// all its bytes.
grpc::ByteBuffer OwnChunks(std::vector<WireChunk> chunks);

// Without copies of large tensors: slices of the result refer to their memory.
// `borrowed` is raised by the number of those slices and falls as each is
// released; it must outlive them.
grpc::ByteBuffer BorrowChunks(std::vector<WireChunk> chunks,
                              std::atomic<int>& borrowed);

// An encoded AttendRequest that owns its bytes.
grpc::ByteBuffer EncodeRequest(const AttendMessage& message);

// Reads the responses.
absl::StatusOr<AttendResult> DecodeResponse(const grpc::ByteBuffer& response);
absl::StatusOr<BackwardResult> DecodeGradientResponse(
    const grpc::ByteBuffer& response);

}  // namespace attn
