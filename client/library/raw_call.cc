#include "client/library/raw_call.h"

#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/library/call_status.h"
#include "engine/core/field_error.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);
// Longer deadlines are cut to this: every call has one.
constexpr absl::Duration kLongestDeadline = absl::Hours(24);
// Below this a copy is cheaper than a counted reference.
constexpr size_t kSmallPayload = 16 << 10;
// How often a finished call looks whether its borrowed slices are free.
constexpr std::chrono::milliseconds kReleasePoll(5);

std::chrono::system_clock::time_point DeadlineOf(absl::Duration from_now) {
  return absl::ToChronoTime(absl::Now() + std::min(from_now, kLongestDeadline));
}

absl::Status CheckAddress(const std::string& address) {
  constexpr char kExpected[] = "host:port or unix:/path";
  if (absl::StartsWith(address, "unix:")) {
    return address.size() > sizeof("unix:") - 1
               ? absl::OkStatus()
               : FieldError("address", address, kExpected);
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port <= 0 ||
      port > std::numeric_limits<uint16_t>::max()) {
    return FieldError("address", absl::StrCat("\"", address, "\""), kExpected);
  }
  return absl::OkStatus();
}

grpc::ChannelArguments ArgumentsFor(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
  arguments.SetMaxReceiveMessageSize(
      options.max_response_bytes > kMaxInt
          ? -1
          : static_cast<int>(options.max_response_bytes));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(options.keepalive / absl::Milliseconds(1)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(kKeepaliveTimeout / absl::Milliseconds(1)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  if (options.connection != 0) {
    arguments.SetInt("attn.connection", options.connection);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  }
  return arguments;
}

// What a callback call needs to live until it is done.
struct AsyncCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  RawCallback done;
};

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

}  // namespace

absl::StatusOr<RawChannel> RawChannel::Create(const ChannelOptions& options) {
  if (absl::Status status = CheckAddress(options.address); !status.ok()) {
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
  auto channel = grpc::CreateCustomChannel(options.address,
                                           grpc::InsecureChannelCredentials(),
                                           ArgumentsFor(options));
  return RawChannel(options.address, std::make_shared<Stub>(channel));
}

absl::StatusOr<grpc::ByteBuffer> RawChannel::Call(
    const char* method, grpc::ByteBuffer request,
    const RawCallOptions& options) const {
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(options.deadline));
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  grpc::Status status;
  auto call = stub_->PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&response, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
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
  if (!status.ok()) return FromCallStatus(status, address_);
  return response;
}

void RawChannel::CallAsync(const char* method, const grpc::ByteBuffer& request,
                           const RawCallOptions& options,
                           RawCallback done) const {
  auto call = std::make_shared<AsyncCall>();
  call->context.set_deadline(DeadlineOf(options.deadline));
  call->request = request;
  call->done = std::move(done);
  stub_->UnaryCall(
      &call->context, method, grpc::StubOptions(), &call->request,
      &call->response, [call, address = address_](const grpc::Status& status) {
        call->done(FromCallStatus(status, address), call->response);
      });
}

grpc::ByteBuffer EncodeRequest(const AttendMessage& message) {
  std::vector<grpc::Slice> slices;
  for (WireChunk& chunk : EncodeAttendRequest(message)) {
    slices.push_back(OwnedSlice(std::move(chunk)));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer BorrowRequest(const AttendMessage& message,
                               std::atomic<int>& borrowed) {
  std::vector<grpc::Slice> slices;
  for (WireChunk& chunk : EncodeAttendRequest(message)) {
    slices.push_back(chunk.borrowed_size >= kSmallPayload
                         ? BorrowedSlice(chunk, borrowed)
                         : OwnedSlice(std::move(chunk)));
  }
  return {slices.data(), slices.size()};
}

absl::StatusOr<AttendResult> DecodeResponse(const grpc::ByteBuffer& response) {
  grpc::ByteBuffer bytes = response;  // The reader wants it mutable.
  const auto size = static_cast<int64_t>(bytes.Length());
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok()) {
    return absl::InternalError("the response cannot be read");
  }
  return DecodeAttendResponse(reader, size);
}

}  // namespace attn
