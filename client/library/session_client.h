// Sessions on an attn server, call by call. RemoteSession (remote_session.h)
// is what most programs want: it keeps count, and goes on elsewhere.
//
//   auto client = SessionClient::Connect({.address = "127.0.0.1:8001"});
//   auto opened = client->Open({.q_heads = 8, .kv_heads = 2, .q_dim = 64});
//   auto result = client->Step({.session_id = opened->session_id(), ...});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/attention_client.h"
#include "client/library/raw_call.h"
#include "client/library/session_stream.h"
#include "engine/core/attention_spec.h"
#include "engine/core/dtype.h"
#include "engine/core/tensor_view.h"
#include "proto/codec/session_codec.h"

namespace attn {

inline constexpr char kOpenSessionMethod[] =
    "/attention.v1.SessionService/OpenSession";
inline constexpr char kStepMethod[] = "/attention.v1.SessionService/Step";
inline constexpr char kForkMethod[] = "/attention.v1.SessionService/Fork";
inline constexpr char kCloseSessionMethod[] =
    "/attention.v1.SessionService/CloseSession";

// What a session is opened with: attention.v1.OpenSessionRequest, whose
// comments say more.
struct NewSession {
  AttentionSpec spec{};
  int layers = 1;
  int64_t q_heads = 1;
  // 0: as q_heads.
  int64_t kv_heads = 0;
  int64_t q_dim = 0;
  // 0: as q_dim.
  int64_t k_dim = 0;
  // 0: as k_dim.
  int64_t v_dim = 0;
  // How k and v are kept: F32, F16, BF16 or I8.
  DType kv_dtype = DType::kF32;
  // 0: as many as the server has room for.
  int64_t max_tokens = 0;
  // Zero: the server's.
  absl::Duration idle_timeout{};
  // What the spec names by input. Borrowed while the call is encoded.
  std::vector<TensorView> inputs{};
};

// The request that asks for it; tensors are copied.
v1::OpenSessionRequest EncodeOpenSession(const NewSession& session);

// Errors as those of AttentionClient; ErrorReasonOf() (call_status.h) gives the
// reason that the server names, such as SESSION_NOT_HERE.
//
// Every call is tried again where that may help, within its deadline: a step, a
// rollback and a close that were done are answered as before. An Open or a Fork
// whose answer was lost leaves a session behind, which ends when it was idle
// for too long.
//
// Copies share the connection. Thread-safe; the steps of one session must be
// made one after the other.
class SessionClient {
 public:
  // INVALID_ARGUMENT for options that cannot be meant. Does not wait for the
  // server.
  static absl::StatusOr<SessionClient> Connect(const ClientOptions& options);

  absl::StatusOr<v1::OpenSessionResponse> Open(
      const NewSession& session, const CallOptions& options = {}) const;
  // As Open, with a request that was encoded before.
  absl::StatusOr<v1::OpenSessionResponse> Open(
      const v1::OpenSessionRequest& request,
      const CallOptions& options = {}) const;

  // Makes one step and waits for it. The tensors are sent from where they are;
  // they may be reused once this returns, whatever the outcome. After
  // UNAVAILABLE, CANCELLED and DEADLINE_EXCEEDED it may have been made or not:
  // send it again as it was.
  absl::StatusOr<StepResult> Step(const StepMessage& message,
                                  const CallOptions& options = {}) const;
  // A stream of steps, of any sessions of the server's. Its options' deadline
  // is that of each answer. Does not wait for the server.
  std::unique_ptr<SessionStepStream> OpenStepStream(
      const CallOptions& options = {}) const;

  // `position` absent: all tokens.
  absl::StatusOr<v1::ForkResponse> Fork(const std::string& session_id,
                                        uint64_t epoch,
                                        std::optional<int64_t> position,
                                        const CallOptions& options = {}) const;
  absl::StatusOr<v1::RollbackResponse> Rollback(
      const std::string& session_id, uint64_t epoch, int64_t position,
      const CallOptions& options = {}) const;
  // Whether it was there.
  absl::StatusOr<bool> Close(const std::string& session_id,
                             const CallOptions& options = {}) const;
  absl::StatusOr<v1::SessionInfo> Get(const std::string& session_id,
                                      const CallOptions& options = {}) const;
  // All of the caller's, by id; as many calls as there are pages, all within
  // the one deadline.
  absl::StatusOr<std::vector<v1::SessionInfo>> List(
      const CallOptions& options = {}) const;

  // The same for a session whose server is `owner`: calls name it to a proxy at
  // this client's address (call_route.h). They name their session anyway, but
  // for a stream of steps, which may be about several.
  SessionClient RoutedTo(std::string owner) const;

  const std::string& address() const { return channel_.address(); }
  // Of RoutedTo(); empty: none was named.
  const std::string& owner() const { return owner_; }
  // Of calls that name none.
  absl::Duration deadline() const { return deadline_; }

 private:
  SessionClient(RawChannel channel, absl::Duration deadline)
      : channel_(std::move(channel)), deadline_(deadline) {}

  RawCallOptions ToRaw(const CallOptions& options,
                       const std::string& session_id = {}) const;
  // A call of one small message.
  absl::Status Call(const char* method,
                    const google::protobuf::MessageLite& request,
                    const RawCallOptions& options,
                    google::protobuf::MessageLite& response) const;

  RawChannel channel_;
  absl::Duration deadline_;
  std::string owner_;
};

}  // namespace attn
