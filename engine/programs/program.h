// A program of a call: an expression for its scores, mask or weights.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/programs/expression.h"
#include "engine/programs/parser.h"
#include "engine/programs/step.h"
#include "engine/programs/table_reader.h"
#include "engine/tile/tile.h"

namespace attn {

// The language is in README.md of this room. Rows are evaluated in chunks of
// keys; nothing here allocates but Compile(). Immutable. Thread-safe.
class Program {
 public:
  // Errors name "`field`.source" and a column, or "`field`.tables[i]...".
  static absl::StatusOr<std::unique_ptr<const Program>> Compile(
      const ProgramSpec& spec, const Problem& problem, ProgramKind kind,
      absl::string_view field);

  // Score and weight programs: replaces every element of `values` by what the
  // program makes of it, but where `logits`, of the same bounds, is -infinity:
  // an excluded key stays as it is. A score program's logits are its values.
  void Run(const CallView& call, const Tile<float>& values,
           const Tile<float>& logits) const;
  void Run(const CallView& call, const Tile<double>& values,
           const Tile<double>& logits) const;

  // Mask programs: -infinity where the program is false.
  void Exclude(const CallView& call, const Tile<float>& tile) const;
  void Exclude(const CallView& call, const Tile<double>& tile) const;

  // Score and weight programs: turns the gradient of what Run() gave, in
  // place, into that of `values`, what it took (0 where `logits` excludes), and
  // adds the tables' gradients to `sink`. min, max and clamp follow the choice
  // that they made; abs has slope 0 at 0; an element whose gradient is 0 adds
  // nothing.
  void Backward(const CallView& call, const Tile<double>& values,
                const Tile<double>& logits, const Tile<double>& gradient,
                const GradientSink& sink) const;

 private:
  using Tables = absl::InlinedVector<TableReader, kMaxProgramTables>;

  Program(const ProgramSpec& spec, Expression expression, ProgramKind kind);

  Tables Bind(const CallView& call) const;
  template <typename T>
  void RunTile(const CallView& call, const Tile<T>& values,
               const Tile<T>& logits) const;
  template <typename T>
  void ExcludeTile(const CallView& call, const Tile<T>& tile) const;

  Expression expression_;
  std::vector<Step> steps_;
  // Indices into AttentionArgs::inputs.
  std::vector<uint32_t> table_inputs_;
};

}  // namespace attn
