// Reads a program.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/problem.h"
#include "engine/programs/expression.h"

namespace attn {

// What a program is asked for, which decides what it may read and must give.
enum class ProgramKind : uint8_t { kScore, kMask, kWeight };

// Checks names, types, bounds and the ranks of tables. Errors name
// "`field`.source" with a column, or "`field`.tables[i]...". `spec.tables` were
// checked by CheckProgramTables(). Thread-safe: pure.
absl::StatusOr<Expression> ParseProgram(const ProgramSpec& spec,
                                        const Problem& problem,
                                        ProgramKind kind,
                                        absl::string_view field);

}  // namespace attn
