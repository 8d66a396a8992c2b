// Names and operators of the language.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/programs/expression.h"

namespace attn {

// What the operands of an operator are.
enum class OperandTypes : uint8_t { kNumbers, kBools, kAlike };

// An infix operator. A higher level binds more tightly; all lean to the left.
struct InfixOperator {
  const char* symbol;
  Operation operation;
  int level;
  OperandTypes operands;
  bool gives_bool;
};

inline constexpr int kLowestLevel = 1;

// A function of numbers.
struct ProgramFunction {
  const char* name;
  // Of clamp, that of its first half.
  Operation operation;
  uint8_t arity;
};

// Null: no such operator or function.
const InfixOperator* FindInfixOperator(absl::string_view symbol);
const ProgramFunction* FindProgramFunction(absl::string_view name);

// Whether a table may not have this name.
bool IsReserved(absl::string_view name);

}  // namespace attn
