// Cases made from cases: one batch entry, other keys, fewer queries.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/testing/variants/variant_case.h"

namespace attn::testing {

// What the batch entry is as a call of its own.
oracle::VariantCase OneBatchEntry(const oracle::VariantCase& call, int64_t b);

// Only these keys, in this order; inputs stay as they are.
oracle::VariantCase WithKeys(const oracle::VariantCase& call,
                             const std::vector<int64_t>& keys);

// Queries [begin, begin + count); inputs stay as they are.
oracle::VariantCase WithQueries(const oracle::VariantCase& call, int64_t begin,
                                int64_t count);

// The rows [begin, begin + count) of each plane of `length` rows of `width`.
std::vector<double> RowsOf(const std::vector<double>& tensor, int64_t length,
                           int64_t width, int64_t begin, int64_t count);

}  // namespace attn::testing
