// Which tensors of a call a spec names.
#pragma once

#include <cstdint>
#include <set>

#include "engine/core/attention_spec.h"

namespace attn {

// Indices into AttentionArgs::inputs, those of spec.projections included.
std::set<uint32_t> NamedInputs(const AttentionSpec& spec);

}  // namespace attn
