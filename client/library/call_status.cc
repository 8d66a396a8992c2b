#include "client/library/call_status.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/codec/error_details.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

constexpr char kUnreachablePayload[] = "attn.client/unreachable";
constexpr char kReasonPayload[] = "attn.client/reason";

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

// How it words a server that is there, but is not the one that was meant.
constexpr const char* kHandshakeWords[] = {
    "handshake failed",
    "Handshake failed",
    "is not in peer certificate",
};

// How it words something that speaks, but not HTTP/2 as gRPC does.
constexpr const char* kForeignWords[] = {
    "Failed parsing HTTP/2",
    "Trying to connect an http1.x server",
};

// How a server ends a connection that it does not understand, or whose
// certificate it misses.
constexpr const char* kHungUpWords[] = {
    "Connection reset",
    "Socket closed",
    "Broken pipe",
};

// What gRPC says of a message that is too long, and what helps. The server's
// own words name its flag.
struct Advice {
  const char* words;
  const char* what_to_do;
};
constexpr Advice kAdvice[] = {
    {"Sent message larger than max",
     "no message is longer than that: send less in one call"},
    {"Received message larger than max",
     "of the two numbers the second is the reader's limit: ask for fewer or "
     "smaller outputs, or raise max_response_bytes of the client"},
    {"RST_STREAM with error code 11",
     "the messages that the server is reading fill --max-transport-bytes: try "
     "again later, or send less in one call"},
};

// `status` with advice, where there is any.
grpc::Status Advise(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return status;
  }
  for (const Advice& advice : kAdvice) {
    if (absl::StrContains(status.error_message(), advice.words)) {
      return {status.error_code(),
              absl::StrCat(status.error_message(), "; ", advice.what_to_do),
              status.error_details()};
    }
  }
  return status;
}

bool SaysOneOf(absl::Span<const char* const> list, absl::string_view message) {
  return std::any_of(list.begin(), list.end(), [message](const char* words) {
    return absl::StrContains(message, words);
  });
}

absl::Status FromServer(const grpc::Status& status) {
  const std::string details = status.error_details();
  return WithErrorReason(FromGrpcStatus(status),
                         {details.data(), details.size()});
}

}  // namespace

absl::Status FromCallStatus(const grpc::Status& status,
                            const std::string& address) {
  const std::string& said = status.error_message();
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return FromServer(Advise(status));
  }
  if (SaysOneOf(kHandshakeWords, said)) {
    return absl::UnavailableError(absl::StrCat(
        "this client and the server at ", address, " do not agree on TLS (",
        said, "); look at tls_ca, tls_cert and tls_server_name"));
  }
  const bool foreign = SaysOneOf(kForeignWords, said);
  if (!foreign && !SaysOneOf(kUnreachableWords, said)) {
    return FromServer(status);
  }
  absl::Status unreachable = absl::UnavailableError(
      foreign
          ? absl::StrCat("no gRPC server answers at ", address, " (", said,
                         "); is that the port of something else, as of the "
                         "metrics?")
          : absl::StrCat("no server answers at ", address, " (", said,
                         "); start attn-server there, or name another address",
                         SaysOneOf(kHungUpWords, said)
                             ? "; or only one side speaks TLS, or a client "
                               "certificate is asked for"
                             : ""));
  unreachable.SetPayload(kUnreachablePayload, absl::Cord());
  return unreachable;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

absl::Status WithErrorReason(absl::Status status, absl::string_view details) {
  const std::string reason = DecodeErrorDetails(details).reason;
  // A status that is OK would keep no payload.
  if (!reason.empty()) status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

absl::Status WithMessage(const absl::Status& status,
                         absl::string_view message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload(
      [&result](absl::string_view url, const absl::Cord& payload) {
        result.SetPayload(url, payload);
      });
  return result;
}

std::string ErrorReasonOf(const absl::Status& status) {
  const auto reason = status.GetPayload(kReasonPayload);
  return reason.has_value() ? std::string(*reason) : "";
}

}  // namespace attn
