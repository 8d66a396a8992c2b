#include "client/library/call_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

constexpr char kUnreachablePayload[] = "attn.client/unreachable";

// How gRPC 1.51 words the failures of reaching a server.
constexpr const char* kUnreachableWords[] = {
    "failed to connect",
    "connections to all backends failing",
    "DNS resolution failed",
    "Connection reset",
    "Socket closed",
    "Broken pipe",
    "recvmsg",
    "empty address list",
};

bool SaysUnreachable(const std::string& message) {
  for (const char* words : kUnreachableWords) {
    if (absl::StrContains(message, words)) return true;
  }
  return false;
}

}  // namespace

absl::Status FromCallStatus(const grpc::Status& status,
                            const std::string& address) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
      !SaysUnreachable(status.error_message())) {
    return FromGrpcStatus(status);
  }
  absl::Status unreachable = absl::UnavailableError(absl::StrCat(
      "no server answers at ", address, " (", status.error_message(),
      "); start attn-server there, or name another address"));
  unreachable.SetPayload(kUnreachablePayload, absl::Cord());
  return unreachable;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

}  // namespace attn
