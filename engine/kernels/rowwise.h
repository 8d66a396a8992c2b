// The kernel that works on whole rows of scores.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// Never destroyed. Thread-safe.
const Kernel& RowwiseKernel();

}  // namespace attn
