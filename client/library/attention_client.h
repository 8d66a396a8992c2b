// The client of an attn server.
//
//   auto client = AttentionClient::Connect({.address = "127.0.0.1:8001"});
//   AttendMessage message;
//   message.args.q = q.view();  // and k, v
//   message.spec.masks = {CausalMask{Alignment::kTopLeft}};
//   message.wanted.output = true;
//   absl::StatusOr<AttendResult> result = client->Attend(message);
//
// client/examples/quick_start.cc is the whole program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/attend_stream.h"
#include "client/library/client_security.h"
#include "client/library/known_limits.h"
#include "client/library/raw_call.h"
#include "client/library/retry_policy.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/backward_codec.h"
#include "proto/codec/inspect_codec.h"
#include "proto/codec/schema.h"

namespace attn {

struct ClientOptions {
  // One of the forms of server_address.h: with several servers behind it, calls
  // go to each in turn.
  std::string address = "127.0.0.1:8001";
  // Deadline of calls that name none.
  absl::Duration deadline = absl::Seconds(60);
  // Largest response that is taken.
  int64_t max_response_bytes = int64_t{2} << 30;
  // Ping an idle connection this often; servers allow 10 s and more.
  absl::Duration keepalive = absl::Seconds(30);
  // TLS and tokens; by default neither.
  ClientSecurity security{};
  // When calls that failed are made again. {.max_attempts = 1}: never.
  RetryPolicy retry{};
};

struct CallOptions {
  // From now, for all attempts together; zero: the client's.
  absl::Duration deadline;
};

// Errors keep the server's code and words; FieldOf(status) names the field that
// an INVALID_ARGUMENT is about. UNAVAILABLE: no server answers at the address,
// or it is draining; try again or elsewhere. DEADLINE_EXCEEDED: the call's time
// was up. RESOURCE_EXHAUSTED: the server is full; try again later, if
// RetryDelayOf(status) says so.
//
// Every method but Health is made again by itself where that may help, within
// its deadline; what fails nevertheless comes back as the last attempt ended. A
// call that goes over a stream is made once.
//
// Copies share the connection. Thread-safe.
class AttentionClient {
 public:
  // INVALID_ARGUMENT for options that cannot be meant. Does not wait for the
  // server: the first call connects.
  static absl::StatusOr<AttentionClient> Connect(const ClientOptions& options);

  // Computes one call and waits for it. The tensors of `message` are sent from
  // where they are; they may be reused once this returns, whatever the outcome.
  // A request that is larger than the server's messages goes over a stream of
  // its own; a response that may be is to be asked for over one. The first
  // large request, and the first after one that failed, asks the server for its
  // limits within the same deadline.
  absl::StatusOr<AttendResult> Attend(const AttendMessage& message,
                                      const CallOptions& options = {}) const;

  // A stream for many calls, or for calls that are larger than a message. Asks
  // the server for its limits first.
  absl::StatusOr<std::unique_ptr<AttendStream>> OpenStream(
      const CallOptions& options = {}) const;

  // As Attend, without waiting. The tensors are copied before this returns.
  // `done` is called exactly once, on a thread of the library's, and must not
  // block. Keep this client, or a copy, until then.
  using AttendCallback = std::function<void(absl::StatusOr<AttendResult>)>;
  void AttendAsync(const AttendMessage& message, const CallOptions& options,
                   AttendCallback done) const;

  // The gradients of one call; waits and sends as Attend does.
  absl::StatusOr<BackwardResult> AttendBackward(
      const BackwardMessage& message, const CallOptions& options = {}) const;

  // As AttendAsync.
  using BackwardCallback = std::function<void(absl::StatusOr<BackwardResult>)>;
  void AttendBackwardAsync(const BackwardMessage& message,
                           const CallOptions& options,
                           BackwardCallback done) const;

  // Looks inside one call and waits for what is seen. The tensors are sent as
  // those of Attend() are. client/library/inspection.h reads the result.
  absl::StatusOr<InspectResult> Inspect(const InspectMessage& message,
                                        const CallOptions& options = {}) const;

  // How the server would compute the call. Looks at no tensor data: the views
  // may be without.
  absl::StatusOr<v1::PlanResponse> Plan(const AttendMessage& message,
                                        const CallOptions& options = {}) const;

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& options = {}) const;

  // OK if the server (service "") says SERVING; UNAVAILABLE if it says it is
  // not, or does not answer now: it is asked once.
  absl::Status Health(const std::string& service = "",
                      const CallOptions& options = {}) const;

  const std::string& address() const { return channel_.address(); }

 private:
  AttentionClient(RawChannel channel, const ClientOptions& options)
      : channel_(std::move(channel)),
        deadline_(options.deadline),
        max_response_bytes_(options.max_response_bytes) {}

  // Those that are known, or else the server's.
  absl::StatusOr<v1::Limits> LimitsOf(const CallOptions& options) const;
  absl::StatusOr<AttendResult> AttendUnary(std::vector<WireChunk> chunks,
                                           const CallOptions& options) const;
  StreamOptions StreamOptionsFor(const v1::Limits& limits,
                                 const CallOptions& options) const;

  RawCallOptions ToRaw(const CallOptions& options,
                       Repeat repeat = Repeat::kAlways) const;
  // Sends chunks that borrow, and waits until the transport has let go of them.
  absl::StatusOr<grpc::ByteBuffer> CallBorrowing(
      const char* method, std::vector<WireChunk> chunks,
      const CallOptions& options) const;

  RawChannel channel_;
  absl::Duration deadline_;
  int64_t max_response_bytes_;
  std::shared_ptr<KnownLimits> limits_ = std::make_shared<KnownLimits>();
};

}  // namespace attn
