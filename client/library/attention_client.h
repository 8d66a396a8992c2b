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

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/codec/schema.h"
#include "client/library/raw_call.h"
#include "proto/codec/attend_codec.h"

namespace attn {

struct ClientOptions {
  // "host:port" or "unix:/path".
  std::string address = "127.0.0.1:8001";
  // Deadline of calls that name none.
  absl::Duration deadline = absl::Seconds(60);
  // Largest response that is taken.
  int64_t max_response_bytes = int64_t{2} << 30;
  // Ping an idle connection this often; servers allow 10 s and more.
  absl::Duration keepalive = absl::Seconds(30);
};

struct CallOptions {
  // From now; zero: the client's.
  absl::Duration deadline;
};

// Errors keep the server's code and words; FieldOf(status) names the field that
// an INVALID_ARGUMENT is about. UNAVAILABLE: no server answers at the address,
// or it is draining; try again or elsewhere. DEADLINE_EXCEEDED: the call's time
// was up. RESOURCE_EXHAUSTED: the server is full; try again later.
//
// Copies share the connection. Thread-safe.
class AttentionClient {
 public:
  // INVALID_ARGUMENT for options that cannot be meant. Does not wait for the
  // server: the first call connects.
  static absl::StatusOr<AttentionClient> Connect(const ClientOptions& options);

  // Computes one call and waits for it. The tensors of `message` are sent from
  // where they are; they may be reused once this returns, whatever the outcome.
  absl::StatusOr<AttendResult> Attend(const AttendMessage& message,
                                      const CallOptions& options = {}) const;

  // As Attend, without waiting. The tensors are copied before this returns.
  // `done` is called exactly once, on a thread of the library's, and must not
  // block.
  using AttendCallback = std::function<void(absl::StatusOr<AttendResult>)>;
  void AttendAsync(const AttendMessage& message, const CallOptions& options,
                   AttendCallback done) const;

  // How the server would compute the call. Looks at no tensor data: the views
  // may be without.
  absl::StatusOr<v1::PlanResponse> Plan(const AttendMessage& message,
                                        const CallOptions& options = {}) const;

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& options = {}) const;

  // OK if the server (service "") says SERVING; UNAVAILABLE if it says it is
  // not, or does not answer.
  absl::Status Health(const std::string& service = "",
                      const CallOptions& options = {}) const;

  const std::string& address() const { return channel_.address(); }

 private:
  AttentionClient(RawChannel channel, absl::Duration deadline)
      : channel_(std::move(channel)), deadline_(deadline) {}

  RawCallOptions ToRaw(const CallOptions& options) const;

  RawChannel channel_;
  absl::Duration deadline_;
};

}  // namespace attn
