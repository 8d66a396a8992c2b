// The right answer to a call, computed on this machine in double.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"
#include "client/load/payload.h"

namespace attn {

// One F64 output for each payload, by the engine's reference kernel on the
// payload's values widened to F64. INVALID_ARGUMENT as the server would say.
absl::StatusOr<std::vector<HostTensor>> ReferenceOutputs(
    const CallProfile& profile, const std::vector<Payload>& payloads);

// OK if `output` equals `expected` within what its dtype can hold, element by
// element. DATA_LOSS names the first element that does not.
absl::Status CompareOutput(const ResponseTensor& output,
                           const HostTensor& expected);

}  // namespace attn
