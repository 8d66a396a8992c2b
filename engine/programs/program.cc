#include "engine/programs/program.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/programs/chunk_math.h"
#include "engine/programs/lanes.h"

namespace attn {
namespace {

// Keys at a time: enough to hide what a step costs apart from its numbers, few
// enough for the slots of a common program to stay in L1.
constexpr int64_t kChunk = 128;

// The slots of one row's evaluation, in double and in the values' type, on the
// stack. Thread-compatible.
template <typename T>
class ChunkMachine {
 public:
  ChunkMachine(const Expression& expression, const std::vector<Step>& steps,
               absl::Span<const TableReader> tables)
      : expression_(expression), steps_(steps), tables_(tables) {}

  void BeginRow(const CallView& call, const TileBounds& bounds, int64_t row) {
    const int64_t query = bounds.row_begin + row;
    const ProgramPoint point = {
        .batch = bounds.batch,
        .head = bounds.head,
        .query = query,
        .position = query + call.position_offset(bounds.batch),
        .queries = call.q_extent(bounds.batch),
        .keys = call.kv_extent(bounds.batch)};
    EvaluateLanes(expression_, tables_, point, Domain::kRow, row_);
  }

  // Slot 0 then holds the result for `count` keys from `key` on.
  void Run(int64_t key, int64_t count, const T* values) {
    const int64_t padded =
        (count + kProgramLanes - 1) / kProgramLanes * kProgramLanes;
    for (const Step& step : steps_) {
      if (step.kind == StepKind::kValues) {
        std::copy_n(values, count, values_[step.slot]);
        std::fill(values_[step.slot] + count, values_[step.slot] + padded,
                  T{0});
      } else if (step.kind == StepKind::kNarrow) {
        std::transform(numbers_[step.slot], numbers_[step.slot] + padded,
                       values_[step.slot],
                       [](double x) { return static_cast<T>(x); });
      } else if (step.in_value_type) {
        Take(step, key, padded, values_);
      } else {
        Take(step, key, padded, numbers_);
      }
    }
  }

  const T* value() const { return values_[0]; }
  const double* number() const { return numbers_[0]; }

 private:
  template <typename U>
  void Take(const Step& step, int64_t key, int64_t count,
            U (*slots)[kChunk]) const {
    U* out = slots[step.slot];
    const Node& node = expression_[step.node];
    const U* operands[3] = {out, nullptr, nullptr};
    for (int i = 1; i < node.arity; ++i) operands[i] = slots[step.slot + i];
    switch (step.kind) {
      case StepKind::kFill:
        std::fill_n(out, count, static_cast<U>(row_[step.node].at[0]));
        return;
      case StepKind::kKeys:
        std::iota(out, out + count, static_cast<U>(key));
        return;
      case StepKind::kTable:
        tables_[node.table].Gather(operands, count, out);
        return;
      default:
        ApplyOperation(node.operation, operands, count, out);
        return;
    }
  }

  const Expression& expression_;
  const std::vector<Step>& steps_;
  absl::Span<const TableReader> tables_;
  // Nodes of Domain::kRow.
  ProgramLanes row_[kMaxProgramNodes];
  alignas(64) double numbers_[kMaxProgramSlots][kChunk];
  alignas(64) T values_[kMaxProgramSlots][kChunk];
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Program>> Program::Compile(
    const ProgramSpec& spec, const Problem& problem, ProgramKind kind,
    absl::string_view field) {
  absl::Status status = CheckProgramTables(spec, problem, field);
  if (!status.ok()) return status;
  absl::StatusOr<Expression> expression =
      ParseProgram(spec, problem, kind, field);
  if (!expression.ok()) return expression.status();
  return std::unique_ptr<const Program>(
      new Program(spec, *std::move(expression), kind));
}

Program::Program(const ProgramSpec& spec, Expression expression,
                 ProgramKind kind)
    : expression_(std::move(expression)),
      steps_(MakeSteps(expression_, kind != ProgramKind::kMask)) {
  for (const ProgramTable& table : spec.tables) {
    table_inputs_.push_back(table.input);
  }
}

Program::Tables Program::Bind(const CallView& call) const {
  Tables tables;
  for (const uint32_t input : table_inputs_) {
    tables.emplace_back(call.args.inputs[input]);
  }
  return tables;
}

template <typename T>
void Program::RunTile(const CallView& call, const Tile<T>& values,
                      const Tile<T>& logits) const {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  const Tables tables = Bind(call);
  ChunkMachine<T> machine(expression_, steps_, tables);
  const TileBounds& bounds = values.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    machine.BeginRow(call, bounds, r);
    for (int64_t j = 0; j < bounds.keys; j += kChunk) {
      const int64_t count = std::min(kChunk, bounds.keys - j);
      T* row = values.Row(r) + j;
      const T* logit = logits.Row(r) + j;
      machine.Run(bounds.key_begin + j, count, row);
      const T* result = machine.value();
      for (int64_t i = 0; i < count; ++i) {
        row[i] = logit[i] == kExcluded ? row[i] : result[i];
      }
    }
  }
}

void Program::Run(const CallView& call, const Tile<float>& values,
                  const Tile<float>& logits) const {
  RunTile(call, values, logits);
}

void Program::Run(const CallView& call, const Tile<double>& values,
                  const Tile<double>& logits) const {
  RunTile(call, values, logits);
}

template <typename T>
void Program::ExcludeTile(const CallView& call, const Tile<T>& tile) const {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  const Tables tables = Bind(call);
  ChunkMachine<T> machine(expression_, steps_, tables);
  const TileBounds& bounds = tile.bounds;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    machine.BeginRow(call, bounds, r);
    for (int64_t j = 0; j < bounds.keys; j += kChunk) {
      const int64_t count = std::min(kChunk, bounds.keys - j);
      T* row = tile.Row(r) + j;
      machine.Run(bounds.key_begin + j, count, row);
      const double* allowed = machine.number();
      for (int64_t i = 0; i < count; ++i) {
        row[i] = allowed[i] == 0 ? kExcluded : row[i];
      }
    }
  }
}

void Program::Exclude(const CallView& call, const Tile<float>& tile) const {
  ExcludeTile(call, tile);
}

void Program::Exclude(const CallView& call, const Tile<double>& tile) const {
  ExcludeTile(call, tile);
}

}  // namespace attn
