// Reverse mode over a program's nodes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/programs/lanes.h"
#include "engine/programs/program.h"
#include "engine/tile/sigmoid.h"

namespace attn {
namespace {

// Slopes of an operation in its first and second operand.
struct Slopes {
  double first = 0;
  double second = 0;
};

Slopes SlopesOfPow(double a, double b, double result) {
  Slopes slopes;
  slopes.first = b == 0 ? 0 : b * std::pow(a, b - 1);
  // 0^b is 0 for every b > 0.
  slopes.second = a == 0 && b > 0 ? 0 : result * std::log(a);
  return slopes;
}

// Of an operation on one number x that gave y.
double SlopeOfFunction(Operation operation, double x, double y) {
  switch (operation) {
    case Operation::kNegate:
      return -1;
    case Operation::kAbs:
      return x > 0 ? 1 : (x < 0 ? -1 : 0);
    case Operation::kExp:
      return y;
    case Operation::kLog:
      return 1 / x;
    case Operation::kTanh:
      return TanhSlope(x);
    case Operation::kSqrt:
      return 0.5 / y;
    case Operation::kSin:
      return std::cos(x);
    case Operation::kCos:
      return -std::sin(x);
    case Operation::kSigmoid:
      return SigmoidSlope(x);
    default:  // floor, and what gives a bool
      return 0;
  }
}

Slopes SlopesOf(Operation operation, double a, double b, double result) {
  switch (operation) {
    case Operation::kAdd:
      return {1, 1};
    case Operation::kSubtract:
      return {1, -1};
    case Operation::kMultiply:
      return {b, a};
    case Operation::kDivide:
      return {1 / b, -result / b};
    case Operation::kModulo:
      return {1, -std::floor(a / b)};
    case Operation::kMin:
      return {b < a ? 0.0 : 1.0, b < a ? 1.0 : 0.0};
    case Operation::kMax:
      return {b > a ? 0.0 : 1.0, b > a ? 1.0 : 0.0};
    case Operation::kPow:
      return SlopesOfPow(a, b, result);
    default:
      return {SlopeOfFunction(operation, a, result), 0};
  }
}

// A slope may be infinite or NaN where nothing asks for it.
double Share(double gradient, double slope) {
  return gradient == 0 || slope == 0 ? 0 : gradient * slope;
}

// The way back over the nodes of one chunk. Thread-compatible.
class ReverseSweep {
 public:
  ReverseSweep(const Expression& expression,
               absl::Span<const TableReader> tables,
               absl::Span<const uint32_t> table_inputs,
               const GradientSink& sink)
      : expression_(expression),
        tables_(tables),
        table_inputs_(table_inputs),
        sink_(sink) {}

  // Replaces `gradient`, of the result, by that of point.values.
  void Run(const ProgramPoint& point, ProgramLanes& gradient) {
    EvaluateLanes(expression_, tables_, point, Domain::kValue, lanes_);
    const size_t count = expression_.size();
    std::fill_n(gradients_, count, ProgramLanes{});
    gradients_[count - 1] = gradient;
    gradient = ProgramLanes{};
    for (size_t n = count; n-- > 0;) {
      const Node& node = expression_[n];
      if (node.operation == Operation::kValue) {
        for (int64_t i = 0; i < kProgramLanes; ++i) {
          gradient.at[i] += gradients_[n].at[i];
        }
      } else if (node.operation == Operation::kTable) {
        AddToTable(node, gradients_[n]);
      } else if (node.arity > 0 && !node.is_bool) {
        PassOn(n);
      }
    }
  }

 private:
  void PassOn(size_t n) {
    const Node& node = expression_[n];
    const ProgramLanes& own = gradients_[n];
    ProgramLanes& first = gradients_[node.operands[0]];
    ProgramLanes& second = gradients_[node.operands[1]];
    const double* a = lanes_[node.operands[0]].at;
    const double* b = lanes_[node.operands[1]].at;
    if (node.operation == Operation::kSelect) {
      ProgramLanes& third = gradients_[node.operands[2]];
      for (int64_t i = 0; i < kProgramLanes; ++i) {
        (a[i] != 0 ? second : third).at[i] += own.at[i];
      }
      return;
    }
    for (int64_t i = 0; i < kProgramLanes; ++i) {
      const Slopes slopes =
          SlopesOf(node.operation, a[i], b[i], lanes_[n].at[i]);
      first.at[i] += Share(own.at[i], slopes.first);
      if (node.arity == 2) second.at[i] += Share(own.at[i], slopes.second);
    }
  }

  // Indices have no slope.
  void AddToTable(const Node& node, const ProgramLanes& gradient) const {
    double* buffer = sink_.Of(table_inputs_[node.table]);
    if (buffer == nullptr) return;
    const TableReader& table = tables_[node.table];
    const double* row = lanes_[node.operands[0]].at;
    const double* column = lanes_[node.operands[1]].at;
    for (int64_t i = 0; i < kProgramLanes; ++i) {
      const int64_t index = table.FlatIndex(row[i], column[i]);
      if (index >= 0) buffer[index] += gradient.at[i];
    }
  }

  const Expression& expression_;
  absl::Span<const TableReader> tables_;
  absl::Span<const uint32_t> table_inputs_;
  const GradientSink& sink_;
  ProgramLanes lanes_[kMaxProgramNodes];
  ProgramLanes gradients_[kMaxProgramNodes];
};

}  // namespace

void Program::Backward(const CallView& call, const Tile<double>& values,
                       const Tile<double>& logits, const Tile<double>& gradient,
                       const GradientSink& sink) const {
  constexpr double kExcluded = -std::numeric_limits<double>::infinity();
  const Tables tables = Bind(call);
  ReverseSweep sweep(expression_, tables, table_inputs_, sink);
  const TileBounds& bounds = values.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    const int64_t query = bounds.row_begin + r;
    for (int64_t j = 0; j < bounds.keys; j += kProgramLanes) {
      const int64_t count = std::min(kProgramLanes, bounds.keys - j);
      ProgramLanes taken = {};
      ProgramLanes asked = {};
      for (int64_t i = 0; i < count; ++i) {
        taken.at[i] = values.Row(r)[j + i];
        const bool excluded = logits.Row(r)[j + i] == kExcluded;
        asked.at[i] = excluded ? 0 : gradient.Row(r)[j + i];
      }
      const ProgramPoint point = {
          .batch = bounds.batch,
          .head = bounds.head,
          .query = query,
          .position = query + call.position_offset(bounds.batch),
          .queries = call.q_extent(bounds.batch),
          .keys = call.kv_extent(bounds.batch),
          .key = bounds.key_begin + j,
          .values = taken.at};
      sweep.Run(point, asked);
      std::copy_n(asked.at, count, gradient.Row(r) + j);
    }
  }
}

}  // namespace attn
