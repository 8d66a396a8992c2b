// Keys and values that come as integers: what is checked of them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/core/problem.h"

namespace attn {

// The granularity and the scales. Errors name
// "spec.kv_quantization.granularity", "spec.kv_quantization.key_scale.input",
// ... OK if the problem has no quantization.
absl::Status ValidateQuantization(const Problem& problem);

// "int8(per_head)"
std::string DescribeQuantization(const KvQuantization& quantization);

}  // namespace attn
