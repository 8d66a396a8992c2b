#include "engine/programs/step.h"

#include <utility>

namespace attn {
namespace {

// Recursion is as deep as the tree. Thread-compatible.
class StepMaker {
 public:
  explicit StepMaker(const Expression& expression) : expression_(expression) {}

  void Emit(uint16_t index, uint8_t slot, bool in_value_type) {
    const Node& node = expression_[index];
    if (node.domain == Domain::kRow) {
      steps_.push_back({StepKind::kFill, in_value_type, slot, index});
      return;
    }
    const bool own_type = node.domain == Domain::kValue;
    for (uint8_t i = 0; i < node.arity; ++i) {
      Emit(node.operands[i], static_cast<uint8_t>(slot + i), own_type);
    }
    steps_.push_back({KindOf(node.operation), own_type, slot, index});
    if (in_value_type && !own_type) {
      steps_.push_back({StepKind::kNarrow, true, slot, index});
    }
  }

  std::vector<Step> Take() { return std::move(steps_); }

 private:
  static StepKind KindOf(Operation operation) {
    switch (operation) {
      case Operation::kKey:
        return StepKind::kKeys;
      case Operation::kValue:
        return StepKind::kValues;
      case Operation::kTable:
        return StepKind::kTable;
      default:
        return StepKind::kApply;
    }
  }

  const Expression& expression_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> MakeSteps(const Expression& expression, bool in_value_type) {
  StepMaker maker(expression);
  maker.Emit(static_cast<uint16_t>(expression.size() - 1), 0, in_value_type);
  return maker.Take();
}

}  // namespace attn
