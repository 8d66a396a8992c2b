// Every node of a program at a few keys at once, in double.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/programs/chunk_math.h"
#include "engine/programs/expression.h"
#include "engine/programs/table_reader.h"

namespace attn {

// Where a program is asked: one query row, and kProgramLanes keys from `key`
// on.
struct ProgramPoint {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t position = 0;
  // Of the batch entry.
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t key = 0;
  // The scores or weights there; may be null if no node of Domain::kValue is
  // asked for.
  const double* values = nullptr;
};

struct alignas(64) ProgramLanes {
  double at[kProgramLanes];
};

// lanes[n] = node n, for the nodes whose domain is `widest` or less.
// Thread-safe: pure.
void EvaluateLanes(const Expression& expression,
                   absl::Span<const TableReader> tables,
                   const ProgramPoint& point, Domain widest,
                   ProgramLanes* lanes);

}  // namespace attn
