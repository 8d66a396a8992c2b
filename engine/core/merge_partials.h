// Puts attention over parts of the keys together again.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace attn {

// One query's attention over one set of keys: what a call gives as output and
// lse. Borrows the output. A value; thread-compatible.
template <typename T>
struct PartialRow {
  double lse = 0;             // natural logarithm; -inf: no key was seen
  const T* output = nullptr;  // [width]
};

// The row over the union of disjoint sets of keys, to `output` [width]; gives
// its lse = ln sum_p exp(lse_p), with output = sum_p exp(lse_p - lse) output_p
// (Dao et al. 2022, algorithm 1). In double, in the order of the parts: exact
// up to rounding. (0, -inf) is the identity, no part, or none but empty ones,
// give it; what an empty part holds is not read. A NaN lse gives a row of NaN.
// T is float or double; `output` overlaps no part. Thread-safe: pure.
template <typename T>
double MergePartials(absl::Span<const PartialRow<T>> parts, int64_t width,
                     T* output);

// What logits that take part in the softmax without a value make of a row.
struct SinkJoin {
  double lse_with_sink = 0;
  // The weights, and with them the output, are multiplied by it.
  double factor = 1;
};

// Sinks join once, after merging: the parts are computed without. Sinks of
// -inf, and none, change nothing.
SinkJoin JoinSinks(double lse, absl::Span<const double> sinks);

}  // namespace attn
