// Errors as an HTTP client is told them.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"
#include "server/http/http_exchange.h"

namespace attn {

// 400 for INVALID_ARGUMENT and so on: the mapping of google/rpc/code.proto.
int HttpStatusOf(absl::StatusCode code);

// google.rpc.Status in protobuf's JSON mapping:
//
//   {"code": 3, "message": "q: got ...", "details": [
//      {"@type": "type.googleapis.com/google.rpc.BadRequest",
//       "fieldViolations": [{"field": "q", "description": "..."}]}, ...]}
//
// with Retry-After if there is a time to come back.
HttpResponse ErrorResponse(const grpc::Status& status);
HttpResponse ErrorResponse(const absl::Status& status);

// 415 if the body is not said to be JSON. A page of another origin can send a
// form, but not this, without being asked for it first.
std::optional<HttpResponse> RefuseUnlessJson(const HttpRequest& request);

// RESOURCE_EXHAUSTED: an answer for which there is no memory now.
absl::Status NoRoomForAnswer();

// 405: the path has other methods, "GET, HEAD".
HttpResponse WrongMethod(absl::string_view method, absl::string_view allowed);

}  // namespace attn
