// The labels that metrics of this server have.
#pragma once

#include <string>
#include <vector>

#include "server/metrics/metrics_server.h"

namespace attn {

// gRPC's status codes, by their numbers.
std::vector<std::string> StatusCodeNames();
// The methods that are served, those of the Open Inference Protocol too if
// `open_inference`.
std::vector<MethodLabels> MethodsWithVariants(bool open_inference);

}  // namespace attn
