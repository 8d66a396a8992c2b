#include "engine/programs/lanes.h"

#include <algorithm>
#include <numeric>

namespace attn {
namespace {

double RowNumber(const Node& node, const ProgramPoint& point) {
  switch (node.operation) {
    case Operation::kBatch:
      return static_cast<double>(point.batch);
    case Operation::kHead:
      return static_cast<double>(point.head);
    case Operation::kQuery:
      return static_cast<double>(point.query);
    case Operation::kPosition:
      return static_cast<double>(point.position);
    case Operation::kQueries:
      return static_cast<double>(point.queries);
    case Operation::kKeys:
      return static_cast<double>(point.keys);
    default:
      return node.number;
  }
}

void FillLeaf(const Node& node, const ProgramPoint& point, double* out) {
  if (node.operation == Operation::kValue) {
    std::copy_n(point.values, kProgramLanes, out);
  } else if (node.operation == Operation::kKey) {
    std::iota(out, out + kProgramLanes, static_cast<double>(point.key));
  } else {
    std::fill_n(out, kProgramLanes, RowNumber(node, point));
  }
}

}  // namespace

void EvaluateLanes(const Expression& expression,
                   absl::Span<const TableReader> tables,
                   const ProgramPoint& point, Domain widest,
                   ProgramLanes* lanes) {
  for (size_t n = 0; n < expression.size(); ++n) {
    const Node& node = expression[n];
    if (node.domain > widest) continue;
    if (node.arity == 0) {
      FillLeaf(node, point, lanes[n].at);
      continue;
    }
    const double* operands[3] = {};
    for (size_t i = 0; i < node.arity; ++i) {
      operands[i] = lanes[node.operands[i]].at;
    }
    if (node.operation == Operation::kTable) {
      tables[node.table].Gather(operands, kProgramLanes, lanes[n].at);
    } else {
      ApplyOperation(node.operation, operands, kProgramLanes, lanes[n].at);
    }
  }
}

}  // namespace attn
