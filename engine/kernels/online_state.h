// What kernels share that take in a softmax bit by bit.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/tile/online_rows.h"

namespace attn {

// Why a softmax over the problem's rows cannot be taken in bit by bit, in F32;
// empty: it can. For people to read.
std::string WhyNotOnline(const Problem& problem);

// Takes a part of the row's keys in, the lower ones first. Returns the state of
// both, but for moments; what was added up with the maximum of `row` or `part`
// must be multiplied by exp(its max - the state's max). Thread-safe: pure.
OnlineRow JoinStates(const OnlineRow& row, const OnlineRow& part);

// Fills the statistics of a row as softmax normalizers do; `sinks` are logits
// that join the sum and get no weight of a key. Returns what a sum of values
// weighted by exp(x - max) is multiplied by to be the output: 0 for a row
// without keys, NaN where a logit is NaN or +infinity. Thread-safe: pure.
double DescribeState(const OnlineRow& state, absl::Span<const double> sinks,
                     RowStatistics* statistics);

}  // namespace attn
