// The rows of the table of normalizers, one from each file of this room.
#pragma once

#include "engine/normalizers/normalizer.h"

namespace attn {

NormalizerEntry SoftmaxNormalizerEntry();
NormalizerEntry SoftmaxPlusNormalizerEntry();
NormalizerEntry SparsemaxNormalizerEntry();
NormalizerEntry EntmaxNormalizerEntry();
NormalizerEntry SigmoidNormalizerEntry();
NormalizerEntry ReluNormalizerEntry();
NormalizerEntry DivisiveNormalizerEntry();
NormalizerEntry HardNormalizerEntry();
NormalizerEntry LocalNormalizerEntry();
NormalizerEntry IdentityNormalizerEntry();
NormalizerEntry LinearNormalizerEntry();

}  // namespace attn
