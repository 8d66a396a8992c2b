#include "server/app/http_port.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/channel_arguments.h"
#include "server/app/listen_address.h"

namespace attn {
namespace {

// Of what the tensors of a call may take, base64 makes four thirds; the rest is
// the JSON around them.
int64_t LargestBody(int64_t message_bytes) {
  constexpr int64_t kAround = int64_t{2} << 20;
  return message_bytes + message_bytes / 3 + kAround;
}

std::vector<HttpListenerOptions::Endpoint> Endpoints(
    const std::string& address) {
  std::vector<HttpListenerOptions::Endpoint> endpoints;
  for (const std::string& numeric : NumericAddresses(address)) {
    const auto split = SplitHostPort(numeric);
    if (split.has_value()) endpoints.push_back({split->host, split->port});
  }
  return endpoints;
}

absl::Status CannotListen(const ServerOptions& options) {
  return absl::FailedPreconditionError(
      absl::StrCat("--http-address=", options.http_address,
                   ": cannot listen: ", WhyCannotListen(options.http_address)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpFront>> StartHttpPort(
    const ServerOptions& options, const Access& access, grpc::Server& server,
    std::function<bool()> serving) {
  if (options.http_address.empty()) return nullptr;
  HttpFrontOptions front;
  front.listener.endpoints = Endpoints(options.http_address);
  if (front.listener.endpoints.empty()) return CannotListen(options);
  front.listener.certificates = access.certificates();
  // What gRPC would buffer of as many bytes.
  front.listener.max_bodies_bytes = LargestBody(TransportBytes(options));
  front.listener.max_body_bytes = std::min(
      LargestBody(options.max_message_bytes), front.listener.max_bodies_bytes);
  front.listener.max_answers_bytes =
      LargestBody(std::max(TransportBytes(options), options.max_message_bytes));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  front.channel = server.InProcessChannel(arguments);
  front.serving = std::move(serving);
  front.cors_origins = options.http_cors_origins;
  front.certificates_needed = !options.tls_client_ca.empty();
  front.local_only = IsLoopback(options.http_address);
  auto started = HttpFront::Start(front);
  if (started.ok() || !absl::IsFailedPrecondition(started.status())) {
    return started;
  }
  return CannotListen(options);
}

std::string PageAddress(const ServerOptions& options, const HttpFront& front) {
  const char* scheme = options.tls_cert.empty() ? "http" : "https";
  return absl::StrCat(scheme, "://",
                      WithPort(options.http_address, front.ports().front()),
                      "/");
}

}  // namespace attn
