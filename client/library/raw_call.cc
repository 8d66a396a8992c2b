#include "client/library/raw_call.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/async_call.h"
#include "client/library/call_retries.h"
#include "client/library/call_status.h"
#include "client/library/callback_threads.h"
#include "client/library/server_address.h"
#include "engine/core/field_error.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);
// Waits between attempts to connect, of which the last repeats. With gRPC's
// own, 1 s to 2 min, a call would be made again before anyone has looked
// whether the server is back.
constexpr absl::Duration kFirstReconnect = absl::Milliseconds(100);
constexpr absl::Duration kLastReconnect = absl::Seconds(5);
// Longer deadlines are cut to this: every call has one.
constexpr absl::Duration kLongestDeadline = absl::Hours(24);
// Below this a copy is cheaper than a counted reference.
constexpr size_t kSmallPayload = 16 << 10;
// How often a finished call looks whether its borrowed slices are free.
constexpr std::chrono::milliseconds kReleasePoll(5);

absl::Time EndOf(const RawCallOptions& options) {
  return absl::Now() + std::min(options.deadline, kLongestDeadline);
}

grpc::ChannelArguments ArgumentsFor(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  // Lengths are ints in protobuf, so that no peer could read more.
  constexpr int kLargest = std::numeric_limits<int>::max();
  arguments.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<int64_t>(options.max_response_bytes, kLargest)));
  arguments.SetMaxSendMessageSize(kLargest);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(options.keepalive / absl::Milliseconds(1)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(kKeepaliveTimeout / absl::Milliseconds(1)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kFirstReconnect / absl::Milliseconds(1)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kLastReconnect / absl::Milliseconds(1)));
  if (NamesSeveralServers(options.address)) {
    arguments.SetLoadBalancingPolicyName("round_robin");
  }
  if (options.connection != 0) {
    arguments.SetInt("attn.connection", options.connection);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  }
  return arguments;
}

// Channels with the same arguments share a connection; `use` makes a
// difference.
std::shared_ptr<grpc::GenericStub> MakeStub(const ChannelOptions& options,
                                            const ChannelSecurity& security,
                                            const char* use) {
  grpc::ChannelArguments arguments = ArgumentsFor(options);
  arguments.SetString("attn.use", use);
  if (!options.security.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.security.tls_server_name);
  }
  // A proxy that the environment names would carry it off the machine.
  if (security.plain_token) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return std::make_shared<grpc::GenericStub>(grpc::CreateCustomChannel(
      options.address, security.credentials, arguments));
}

void ReleaseOne(void* counter) {
  static_cast<std::atomic<int>*>(counter)->fetch_sub(1,
                                                     std::memory_order_release);
}

grpc::Slice OwnedSlice(WireChunk chunk) {
  if (chunk.owned_size > 0) {
    void* block = chunk.owned.Release();
    return {block, chunk.owned_size, &AlignedBuffer::Free};
  }
  if (chunk.borrowed_size > 0) return {chunk.borrowed, chunk.borrowed_size};
  return {chunk.bytes.data(), chunk.bytes.size()};
}

grpc::Slice BorrowedSlice(const WireChunk& chunk, std::atomic<int>& borrowed) {
  borrowed.fetch_add(1, std::memory_order_relaxed);
  // gRPC never writes to a slice that is sent.
  return {const_cast<std::byte*>(chunk.borrowed), chunk.borrowed_size,
          &ReleaseOne, &borrowed};
}

template <typename Result>
absl::StatusOr<Result> DecodeWith(
    absl::StatusOr<Result> (*decode)(
        google::protobuf::io::ZeroCopyInputStream& stream, int64_t size),
    const grpc::ByteBuffer& response) {
  grpc::ByteBuffer bytes = response;  // The reader wants it mutable.
  const auto size = static_cast<int64_t>(bytes.Length());
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok()) {
    return absl::InternalError("the response cannot be read");
  }
  return decode(reader, size);
}

}  // namespace

absl::StatusOr<RawChannel> RawChannel::Create(const ChannelOptions& options) {
  if (absl::Status status = CheckServerAddress(options.address); !status.ok()) {
    return status;
  }
  if (options.max_response_bytes <= 0) {
    return FieldError("max_response_bytes",
                      absl::StrCat(options.max_response_bytes), "> 0");
  }
  if (options.keepalive < absl::Seconds(10)) {
    return FieldError("keepalive", absl::FormatDuration(options.keepalive),
                      "10s or more, or servers close the connection");
  }
  if (absl::Status status = CheckRetryPolicy(options.retry); !status.ok()) {
    return status;
  }
  auto security = OpenSecurity(options.security, options.address);
  if (!security.ok()) return security.status();
  auto state = std::make_shared<ChannelState>(options.retry);
  state->address = options.address;
  state->authorization = std::move(security->authorization);
  state->small = MakeStub(options, *security, "small");
  state->large = MakeStub(options, *security, "large");
  return RawChannel(std::move(state));
}

grpc::GenericStub& RawChannel::StubFor(const grpc::ByteBuffer& request) const {
  return request.Length() < kLargeRequestBytes ? *state_->small
                                               : *state_->large;
}

void RawChannel::Authorize(grpc::ClientContext& context) const {
  state_->Authorize(context);
}

// The call is gone when this returns: one that failed before the transport took
// its message keeps the message for as long as it lives.
grpc::Status RawChannel::TryOnce(const char* method,
                                 const grpc::ByteBuffer& request,
                                 const Attempt& attempt,
                                 grpc::ByteBuffer& response) const {
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(attempt.end));
  Authorize(context);
  attempt.route.AddTo(context);
  auto call = StubFor(request).PrepareUnaryCall(&context, method, request,
                                                &attempt.queue);
  call->StartCall();
  call->Finish(&response, &status, &attempt.queue);
  attempt.queue.Next(&tag, &ok);
  return status;
}

absl::StatusOr<grpc::ByteBuffer> RawChannel::Call(
    const char* method, grpc::ByteBuffer request,
    const RawCallOptions& options) const {
  const absl::Time end = EndOf(options);
  CallRetries retries(state_->retry, options.repeat, end, state_->throttle);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  void* tag = nullptr;
  bool ok = false;
  absl::Status status;
  const Attempt attempt{.end = end, .route = options.route, .queue = queue};
  while (true) {
    status =
        FromCallStatus(TryOnce(method, request, attempt, response), address());
    const auto wait = retries.WaitAfter(status, absl::Now());
    if (!wait.has_value()) break;
    queue.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + *wait));
    response.Clear();
  }
  request.Clear();
  // A call that failed early may still be half written. Going on with the
  // queue lets the transport make progress meanwhile.
  while (options.borrowed_slices != nullptr &&
         options.borrowed_slices->load(std::memory_order_acquire) > 0) {
    queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kReleasePoll);
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (!status.ok()) return status;
  return response;
}

void RawChannel::CallAsync(const char* method, const grpc::ByteBuffer& request,
                           const RawCallOptions& options,
                           RawCallback done) const {
  AsyncCall::Start(state_,
                   {.stub = StubFor(request),
                    .method = method,
                    .bytes = request,
                    .end = EndOf(options),
                    .repeat = options.repeat,
                    .route = options.route},
                   std::move(done));
}

void RawChannel::PrepareStream(const char* method, grpc::ClientContext& context,
                               StreamReactor* reactor) const {
  KeepCallbackThreads();
  Authorize(context);
  state_->large->PrepareBidiStreamingCall(&context, method, grpc::StubOptions(),
                                          reactor);
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

grpc::ByteBuffer OwnChunks(std::vector<WireChunk> chunks) {
  std::vector<grpc::Slice> slices;
  slices.reserve(chunks.size());
  for (WireChunk& chunk : chunks) {
    slices.push_back(OwnedSlice(std::move(chunk)));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer BorrowChunks(std::vector<WireChunk> chunks,
                              std::atomic<int>& borrowed) {
  std::vector<grpc::Slice> slices;
  slices.reserve(chunks.size());
  for (WireChunk& chunk : chunks) {
    slices.push_back(chunk.borrowed_size >= kSmallPayload
                         ? BorrowedSlice(chunk, borrowed)
                         : OwnedSlice(std::move(chunk)));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer EncodeRequest(const AttendMessage& message) {
  return OwnChunks(EncodeAttendRequest(message));
}

absl::StatusOr<AttendResult> DecodeResponse(const grpc::ByteBuffer& response) {
  return DecodeWith(DecodeAttendResponse, response);
}

absl::StatusOr<BackwardResult> DecodeGradientResponse(
    const grpc::ByteBuffer& response) {
  return DecodeWith(DecodeBackwardResponse, response);
}

}  // namespace attn
