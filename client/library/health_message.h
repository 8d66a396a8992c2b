// The two messages of grpc.health.v1, by hand: Debian does not install their
// schema.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// HealthCheckResponse.ServingStatus.
enum class HealthState : int {
  kUnknown = 0,
  kServing = 1,
  kNotServing = 2,
  kServiceUnknown = 3,
};

// "SERVING", ...
absl::string_view Name(HealthState state);

// HealthCheckRequest{service}
std::string EncodeHealthRequest(const std::string& service);

// HealthCheckResponse.status; INTERNAL if malformed.
absl::StatusOr<HealthState> DecodeHealthResponse(const std::string& bytes);

}  // namespace attn
