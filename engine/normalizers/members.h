// The rows of the table of normalizers, one from each file of this room.
#pragma once

#include "engine/normalizers/normalizer.h"

namespace attn {

NormalizerEntry SoftmaxNormalizerEntry();

}  // namespace attn
