// The shapes of a call in a few characters, for the log.
#pragma once

#include <string>

#include "engine/core/attention_args.h"

namespace attn {

// "q[1, 8, 512, 64] k[1, 8, 512, 64] v[1, 8, 512, 64] F32"
std::string DescribeShape(const AttentionArgs& args);

}  // namespace attn
