// The vector-Jacobian product of linear attention, exact and in double.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

const Kernel& LinearBackwardKernel();

}  // namespace attn
