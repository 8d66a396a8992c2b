#include "engine/programs/vocabulary.h"

#include <algorithm>

namespace attn {
namespace {

constexpr InfixOperator kInfixOperators[] = {
    {"||", Operation::kOr, 1, OperandTypes::kBools, true},
    {"&&", Operation::kAnd, 2, OperandTypes::kBools, true},
    {"==", Operation::kEqual, 3, OperandTypes::kAlike, true},
    {"!=", Operation::kNotEqual, 3, OperandTypes::kAlike, true},
    {"<", Operation::kLess, 4, OperandTypes::kNumbers, true},
    {"<=", Operation::kLessEqual, 4, OperandTypes::kNumbers, true},
    {">", Operation::kGreater, 4, OperandTypes::kNumbers, true},
    {">=", Operation::kGreaterEqual, 4, OperandTypes::kNumbers, true},
    {"+", Operation::kAdd, 5, OperandTypes::kNumbers, false},
    {"-", Operation::kSubtract, 5, OperandTypes::kNumbers, false},
    {"*", Operation::kMultiply, 6, OperandTypes::kNumbers, false},
    {"/", Operation::kDivide, 6, OperandTypes::kNumbers, false},
    {"%", Operation::kModulo, 6, OperandTypes::kNumbers, false},
};

constexpr ProgramFunction kFunctions[] = {
    {"abs", Operation::kAbs, 1},   {"exp", Operation::kExp, 1},
    {"log", Operation::kLog, 1},   {"tanh", Operation::kTanh, 1},
    {"sqrt", Operation::kSqrt, 1}, {"floor", Operation::kFloor, 1},
    {"sin", Operation::kSin, 1},   {"cos", Operation::kCos, 1},
    {"min", Operation::kMin, 2},   {"max", Operation::kMax, 2},
    {"pow", Operation::kPow, 2},   {"sigmoid", Operation::kSigmoid, 1},
    {"clamp", Operation::kMax, 3},
};

constexpr const char* kReserved[] = {"score", "weight", "b",    "h",    "q",
                                     "k",     "p",      "Sq",   "Sk",   "H",
                                     "B",     "inf",    "true", "false"};

}  // namespace

const InfixOperator* FindInfixOperator(absl::string_view symbol) {
  for (const InfixOperator& op : kInfixOperators) {
    if (symbol == op.symbol) return &op;
  }
  return nullptr;
}

const ProgramFunction* FindProgramFunction(absl::string_view name) {
  for (const ProgramFunction& function : kFunctions) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

bool IsReserved(absl::string_view name) {
  return FindProgramFunction(name) != nullptr ||
         std::any_of(std::begin(kReserved), std::end(kReserved),
                     [&](const char* reserved) { return name == reserved; });
}

}  // namespace attn
