// The kernel for few query rows against a long cache of keys and values.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// Never destroyed. Thread-safe.
const Kernel& DecodeKernel();

}  // namespace attn
