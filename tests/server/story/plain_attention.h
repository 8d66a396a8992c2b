// The story model's attention by its formula, in double and without the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "server/story/story_model.h"

namespace attn {

// x [heads, tokens, head_dim] with the elements 2i and 2i + 1 of the token at
// position p turned by the angle p * 10000^(-2i / head_dim).
std::vector<double> RotatedPlainly(const std::vector<float>& x, int64_t tokens,
                                   int64_t head_dim);

// softmax(q k^T / sqrt(head_dim)) v over each token and those before it, q and
// k rotated; query head h with key/value head h / (heads / kv_heads).
std::vector<float> AttendPlainly(const StoryQkv& qkv, const StoryShape& shape);

}  // namespace attn
