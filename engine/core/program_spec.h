// Expressions that a call brings for its score, mask or weights.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/spec_value.h"

namespace attn {

// A table that a program reads by name: inputs[input], rank 1 or 2.
struct ProgramTable {
  std::string name;
  uint32_t input = 0;
  auto Fields() const { return std::tie(name, input); }
};

// An expression in the language of engine/programs/README.md.
struct ProgramSpec {
  std::string source;
  std::vector<ProgramTable> tables;
  auto Fields() const { return std::tie(source, tables); }
};

}  // namespace attn
