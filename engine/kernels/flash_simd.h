// The tiled kernel for softmax: the logits are never held whole.
#pragma once

#include <memory>

#include "engine/kernels/kernel.h"
#include "engine/kernels/packed_keys.h"

namespace attn {

// "flash_simd": see README.md of this folder.
const Kernel& FlashSimdKernel();

// The same with K in the format.
std::unique_ptr<const Execution> MakeFlashExecution(const Problem& problem,
                                                    KeyFormat format);

}  // namespace attn
