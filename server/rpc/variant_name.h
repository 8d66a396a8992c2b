// A bounded name for a spec: the `variant` label of metrics and logs.
#pragma once

#include <string>
#include <vector>

#include "engine/core/attention_spec.h"

namespace attn {

// The variant of calls that have no spec, or none that could be read.
inline constexpr char kNoVariant[] = "none";

// score_normalizer, then the kind of bias, then the kind of mask, e.g.
// "dot_softmax_alibi_causal". A pure function of the spec; where a spec has
// several biases or masks, the most telling one names it.
std::string VariantName(const AttentionSpec& spec);

// The names of scaled dot-product attention under softmax without a bias: what
// most servers serve.
std::vector<std::string> CommonVariantNames();

// Every name that VariantName() can give.
std::vector<std::string> AllVariantNames();

}  // namespace attn
