// Linear attention: a running state in place of a score matrix.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// Katharopoulos et al. 2020, section 3.3; Schlag et al. 2021, section 4; Yang
// et al. 2024. Time and memory grow with Sk, not with Sq * Sk. One job for each
// KV head; the state is double. Supports every dtype.
const Kernel& LinearKernel();

}  // namespace attn
