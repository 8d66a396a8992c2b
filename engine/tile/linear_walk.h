// Linear attention along some rows of a sequence, in double and on the widest
// vectors of this machine.
//
// Bits depend on content and extents (and on the machine's vectors), never on
// alignment, nor on where a sequence is cut into walks. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace attn {

// A walk from token to token. Token t first takes key t into the state, if
// there is one: S = diag(decay) S, then S += phi(k) c with c = v or, with a
// beta, c = beta (v - phi(k) S). Then it answers the queries t, if there are
// any: output = phi(q) S. Without decay or beta those are null.
struct LinearWalk {
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  double* state = nullptr;  // S, [k_dim, v_dim]
  double* sum = nullptr;    // of phi(k), [k_dim]; null: not asked

  int64_t keys = 0;
  const double* k = nullptr;      // phi(k), [keys, k_dim]
  const double* v = nullptr;      // [keys, v_dim]
  const double* decay = nullptr;  // [keys, k_dim]
  const double* beta = nullptr;   // [keys]

  int64_t heads = 0;  // query heads that share the state
  int64_t queries = 0;
  const double* q = nullptr;   // phi(q), [heads, queries, k_dim]
  double* output = nullptr;    // [heads, queries, v_dim]
  double* divisors = nullptr;  // phi(q) . sum, [heads, queries]

  double* scratch = nullptr;  // LinearWalkScratch(k_dim) elements
};

int64_t LinearWalkScratch(int64_t k_dim);

void WalkLinear(const LinearWalk& walk);

}  // namespace attn
