// The rows of the table of sparsifiers, one from each file of this room.
#pragma once

#include "engine/sparsifiers/sparsifier.h"

namespace attn {

SparsifierEntry TopKSparsifierEntry();
SparsifierEntry ThresholdSparsifierEntry();
SparsifierEntry TopPSparsifierEntry();

}  // namespace attn
