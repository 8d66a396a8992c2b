// What the layers of a call cost, and how they are told.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/problem.h"

namespace attn {

// `stages`, DescribeStages() of the heads, with what is before and after, e.g.
// "project q, k, v -> dot * 0.125 -> softmax -> project output".
std::string DescribeProjections(const Problem& problem,
                                const std::string& stages);

// Floating-point operations of the layers, multiply and add as two; of a
// backward call as if every gradient were wanted.
double ProjectionFlops(const Problem& problem);

// Bytes by which the tensors of the call differ from those of the heads: token
// rows in place of q, k and v, rows of the output in place of the heads'.
int64_t ProjectedTensorBytes(const Problem& problem);

}  // namespace attn
