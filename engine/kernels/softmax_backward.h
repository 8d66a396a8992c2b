// Gradients of softmax attention in f32: the common case, fast.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// Never destroyed. Thread-safe.
const Kernel& SoftmaxBackwardKernel();

}  // namespace attn
