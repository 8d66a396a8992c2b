// Which RPC a request of HTTP stands for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/http/http_exchange.h"

namespace attn {

// A row of the gateway's table.
struct GatewayRoute {
  const char* method;
  // A path that ends in '/' has the value of `name_field` behind it.
  const char* path;
  // "/attention.v1.AttentionService/Attend"
  const char* rpc;
  // Names of the messages.
  const char* request;
  const char* response;
  const char* name_field = nullptr;

  bool has_name() const;
  bool has_body() const;
};

const std::vector<GatewayRoute>& GatewayRoutes();

// The routes of the request's path, whatever their method.
std::vector<const GatewayRoute*> RoutesOf(absl::string_view path);

// The request's message, encoded. INVALID_ARGUMENT names "body", or the field
// of the query or the path that does not fit.
absl::StatusOr<std::string> EncodeGatewayRequest(const GatewayRoute& route,
                                                 HttpRequest& request);

// The response's JSON.
absl::StatusOr<std::string> GatewayJson(const GatewayRoute& route,
                                        const std::string& message);

}  // namespace attn
