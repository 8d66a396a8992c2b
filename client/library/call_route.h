// What a proxy needs to know of a call to bring it to the right server.
#pragma once

#include <string>

#include "grpcpp/client_context.h"

namespace attn {

// Request metadata of calls about a session, for proxies that bring them to the
// server that has it: deploy/haproxy and deploy/nginx do. Servers do not look
// at them.
inline constexpr char kRouteMetadata[] = "x-attn-route";
inline constexpr char kSessionMetadata[] = "x-attn-session";

// A value. Empty parts, and those that no header can hold, are not sent.
struct CallRoute {
  // The server's own address, as OpenSessionResponse.owner tells it.
  std::string owner{};
  std::string session_id{};

  void AddTo(grpc::ClientContext& context) const;
};

}  // namespace attn
