// Random oracle cases, the same on every machine for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/testing/oracle.h"

namespace attn::oracle {

using Random = std::mt19937_64;

// Normally distributed numbers, by a formula of our own: the standard's
// distributions differ between libraries.
std::vector<double> Normal(Random& random, int64_t count);

// 0 <= result < bound
int64_t Below(Random& random, int64_t bound);

// Fills q, k and v of a case whose extents are set.
void FillTensors(Random& random, Case& call);

// A mask tensor that broadcasts to the case's scores; each element allows with
// probability `share`.
Tensor RandomMask(Random& random, const Case& call, double share);

// Awkward extents, and stages taken at random: every combination may come.
Case RandomCase(Random& random);

}  // namespace attn::oracle
