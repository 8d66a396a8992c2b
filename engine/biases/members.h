// The rows of the table of biases, one from each file of this room.
#pragma once

#include "engine/biases/bias.h"

namespace attn {

BiasEntry DenseBiasEntry();
BiasEntry AlibiBiasEntry();
BiasEntry RelativeTableBiasEntry();
BiasEntry T5BiasEntry();
BiasEntry ContinuousPositionBiasEntry();
BiasEntry ConstantBiasEntry();

}  // namespace attn
