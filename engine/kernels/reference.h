// The double-precision kernel of plain loops that computes every problem.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// Never destroyed. Thread-safe.
const Kernel& ReferenceKernel();

}  // namespace attn
