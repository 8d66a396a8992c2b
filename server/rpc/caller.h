// Who calls, and what they say of a call beside its message.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "grpcpp/server_context.h"
#include "server/batching/tenant_quota.h"
#include "server/security/authenticator.h"

namespace attn {

// Under which the server's own HTTP port says, on a call within the process,
// whose certificate it has verified. "-bin": a name may have any bytes.
inline constexpr char kCertificateMetadata[] = "x-attn-certificate-name-bin";
// The value: the name behind bytes that nobody outside of the process knows;
// behind others no name is read.
std::string CertificateMetadata(absl::string_view name);

// A value; thread-compatible.
struct Caller {
  // Not OK: must not be let in.
  absl::Status status = absl::OkStatus();
  // When the call must have ended, on the server's clock.
  absl::Time deadline = absl::InfiniteFuture();
  // 32 hexadecimal digits, or empty: the caller traces nothing.
  std::string trace_id = {};
  // Whose quota the call is booked on, and whose name its log line has.
  Tenant tenant = {};
};

// Reads the metadata of calls. Thread-safe.
class CallerReader {
 public:
  // `clock` and `authenticator` must outlive this. A client that sets no
  // deadline has `default_timeout`. Without an authenticator everybody is let
  // in, as the anonymous tenant without a quota.
  CallerReader(const Clock& clock, absl::Duration default_timeout,
               const Authenticator* authenticator = nullptr)
      : clock_(clock),
        default_timeout_(default_timeout),
        authenticator_(authenticator) {}

  Caller Read(const grpc::CallbackServerContext& call) const;
  // Of a stream: without a deadline of the client's, it has none.
  Caller ReadStream(const grpc::CallbackServerContext& call) const;
  // Who calls, as of the time it is called; null: that cannot change. What
  // shows it is read anew only if the tokens were. Not thread-safe; `call` must
  // outlive it, and this too.
  std::function<absl::StatusOr<Tenant>()> IdentifyLater(
      const grpc::CallbackServerContext& call) const;

 private:
  absl::Time DeadlineOf(const grpc::CallbackServerContext& call) const;
  absl::StatusOr<Tenant> Identify(
      const grpc::CallbackServerContext& call) const;

  const Clock& clock_;
  const absl::Duration default_timeout_;
  const Authenticator* const authenticator_;
};

// The trace id of a W3C `traceparent` (Trace Context, section 3.2), or nothing
// if it is not one.
std::string TraceIdOf(absl::string_view traceparent);

}  // namespace attn
