// A program once it has been read and checked: a tree in post order.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/program_spec.h"

namespace attn {

enum class Operation : uint8_t {
  // Leaves.
  kNumber,
  kValue,     // score or weight
  kBatch,     // b
  kHead,      // h
  kQuery,     // q
  kKey,       // k
  kPosition,  // p
  kQueries,   // Sq of a ragged call
  kKeys,      // Sk of a ragged call
  // An element of a table, by one or two indices.
  kTable,
  // One operand.
  kNegate,
  kNot,
  kAbs,
  kExp,
  kLog,
  kTanh,
  kSqrt,
  kFloor,
  kSin,
  kCos,
  kSigmoid,
  // Two operands.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kMin,
  kMax,
  kPow,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  // condition ? a : b
  kSelect,
};

// What a node varies with along a tile, from the least to the most.
enum class Domain : uint8_t {
  kRow,    // one number for all keys of a row: constants, b, h, q, p, Sq, Sk
  kKey,    // a number for each key
  kValue,  // the score or weight itself
};

struct Node {
  Operation operation = Operation::kNumber;
  Domain domain = Domain::kRow;
  bool is_bool = false;
  uint8_t arity = 0;
  // Of the tree below, a leaf has 1.
  uint8_t depth = 1;
  // Which of ProgramSpec::tables.
  uint8_t table = 0;
  // Indices of earlier nodes.
  uint16_t operands[3] = {0, 0, 0};
  // Of a number, or what is known of the shape when it was read.
  double number = 0;
};

inline constexpr size_t kMaxProgramBytes = 1024;
inline constexpr size_t kMaxProgramNodes = 256;
inline constexpr int kMaxProgramDepth = 32;
inline constexpr size_t kMaxProgramTables = 16;

// Operands stand before the nodes that use them; the last node is the result,
// and every other node is an operand of exactly one.
using Expression = std::vector<Node>;

}  // namespace attn
