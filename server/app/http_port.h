// Starts the HTTP port with the server's settings.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "server/app/access.h"
#include "server/app/options.h"
#include "server/http/http_front.h"

namespace attn {

// Null if --http-address is empty. FAILED_PRECONDITION, one line, if it cannot
// be bound. `serving` is what /readyz says. `access` and `server` must outlive
// the result.
absl::StatusOr<std::unique_ptr<HttpFront>> StartHttpPort(
    const ServerOptions& options, const Access& access, grpc::Server& server,
    std::function<bool()> serving);

// Where a browser finds the page: "http://127.0.0.1:8000/".
std::string PageAddress(const ServerOptions& options, const HttpFront& front);

}  // namespace attn
