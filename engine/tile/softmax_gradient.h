// What the way back of a softmax does to rows, element by element.
//
// On the widest vectors of this machine. Bits depend on the rows' content and
// length (and on the vectors), never on their alignment. Every function takes
// count = 0. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace attn {

// Sum of weights[i] * values[i] where the weight is not 0: what stands beside a
// weight of 0 may be anything. In double over partial sums of a few floats.
double WeightedSum(const float* weights, const float* values, int64_t count);

// gradient[i] = weights[i] * (factor * gradient[i] + shift), 0 where the weight
// is 0: from the gradient of a softmax's weights to that of its logits, with
// shift = -factor * sum of weights * gradient.
void SoftmaxGradientRow(const float* weights, int64_t count, float factor,
                        float shift, float* gradient);

// y = cap * tanh(u) with u = x / cap: turns the gradient of y, in place, into
// that of x and returns that of cap, the sum of dy * (tanh(u) - u / cosh(u)^2).
// An element whose gradient is 0 adds nothing.
double SoftcapGradientRow(const float* x, int64_t count, float cap,
                          float* gradient);

}  // namespace attn
