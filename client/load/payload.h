// Requests that are encoded once and sent many times, so that the load tester
// spends its CPU on sending alone.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "client/library/raw_call.h"
#include "client/load/call_profile.h"

namespace attn {

// The tensors of one call, and the bytes of its request. Thread-compatible.
struct Payload {
  HostTensor q;
  HostTensor k;
  HostTensor v;
  grpc::ByteBuffer request;
};

// `count` payloads with different values, drawn from the normal distribution
// as the profile's seed says. INVALID_ARGUMENT if a tensor has no legal size.
absl::StatusOr<std::vector<Payload>> MakePayloads(const CallProfile& profile,
                                                  int count);

}  // namespace attn
