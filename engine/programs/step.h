// A program as a list of steps over slots, each the array of a chunk of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/programs/expression.h"

namespace attn {

enum class StepKind : uint8_t {
  kFill,    // slot = the row's number of the node
  kKeys,    // slot = absolute key positions
  kValues,  // slot = the scores or weights themselves
  kTable,   // slot = table[slot, slot + 1]
  kApply,   // slot = operation(slot, slot + 1, slot + 2)
  kNarrow,  // slot, in double, becomes one of the values' type
};

// What depends on scores or weights is computed in their type, all else in
// double: a float would not hold every index.
struct Step {
  StepKind kind = StepKind::kFill;
  bool in_value_type = false;
  uint8_t slot = 0;
  uint16_t node = 0;
};

// A tree of the largest depth whose nodes all have three operands.
inline constexpr int kMaxProgramSlots = 2 * (kMaxProgramDepth - 1) + 1;

// Steps that leave the last node in slot 0, in the values' type if
// `in_value_type`. Nodes of Domain::kRow are left to EvaluateLanes().
std::vector<Step> MakeSteps(const Expression& expression, bool in_value_type);

}  // namespace attn
