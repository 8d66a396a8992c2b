// The tiled kernel for BF16 on machines whose products of BF16 are fast.
#pragma once

#include "engine/kernels/kernel.h"

namespace attn {

// "flash_onednn": see README.md of this folder.
const Kernel& FlashOneDnnKernel();

}  // namespace attn
