// Rotary position embedding (Su et al. 2021, section 3.2). Angles are formed
// in double, so that large positions keep their digits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"
#include "engine/transforms/members.h"

namespace attn {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 52;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// cos and sin of one angle.
struct Turn {
  double cos;
  double sin;
};

// The turns of the rows that were asked for last, one for each pair: those of
// row r in slot r mod the number of slots. Thread-compatible.
class RememberedTurns {
 public:
  explicit RememberedTurns(int64_t pairs)
      : pairs_(pairs),
        rows_(static_cast<size_t>(std::clamp<int64_t>(
            kMostTurns / std::max<int64_t>(pairs, 1), 1, kMostRows))),
        turns_(std::make_unique_for_overwrite<Turn[]>(
            rows_.size() * static_cast<size_t>(pairs))) {}

  // Those of a row >= 0; `compute` fills them if they are not there.
  template <typename Compute>
  const Turn* At(int64_t row, Compute compute) {
    const size_t slot = static_cast<size_t>(row) % rows_.size();
    Turn* turns = turns_.get() + slot * static_cast<size_t>(pairs_);
    if (rows_[slot] != row + 1) {
      compute(turns);
      rows_[slot] = row + 1;
    }
    return turns;
  }

 private:
  // A block of a session's keys, as long as that is 1 MiB at most.
  static constexpr int64_t kMostRows = 64;
  static constexpr int64_t kMostTurns = int64_t{1} << 16;

  int64_t pairs_;
  // The row whose turns a slot has, plus 1; 0: none.
  std::vector<int64_t> rows_;
  std::unique_ptr<Turn[]> turns_;
};

class Rotary final : public Transform {
 public:
  Rotary(RotaryTransform spec, const AttentionShape& shape)
      : spec_(std::move(spec)), shape_(shape) {
    if (spec_.cos.has_value()) return;
    const int64_t pairs = RotaryDim() / 2;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double exponent =
          -2.0 * static_cast<double>(pair) / static_cast<double>(2 * pairs);
      frequencies_.push_back(std::pow(spec_.base, exponent));
    }
  }

  bool Applies(Side side) const override {
    return TargetCovers(spec_.target, side);
  }

  void Apply(const CallView& call, Side side, const RowSpan& span,
             float* rows) const override {
    TurnRows(call, side, span, Rows{rows, 1.0});
  }
  void Apply(const CallView& call, Side side, const RowSpan& span,
             double* rows) const override {
    TurnRows(call, side, span, Rows{rows, 1.0});
  }
  // All heads of a batch entry have the same positions.
  KeyTransform OverHeads() const override {
    auto remembered = std::make_shared<RememberedTurns>(RotaryDim() / 2);
    return [this, remembered](const CallView& call, const RowSpan& span,
                              float* rows) {
      for (int64_t r = 0; r < span.count; ++r) {
        const RowSpan at{span.batch, span.head, span.begin + r, 1};
        const Turn* turns = remembered->At(
            at.begin, [&](Turn* to) { ComputeTurns(call, at, to); });
        TurnRow(Rows{rows + r * Width(Side::kKey), 1.0},
                [turns](int64_t pair) { return turns[pair]; });
      }
    };
  }
  // The transpose of a rotation is the rotation by the opposite angle.
  void Backward(const CallView& call, Side side, const RowSpan& span,
                const double* input, double* gradient,
                const GradientSink& sink) const override {
    AddToTables(call, side, span, {input, gradient}, sink);
    TurnRows(call, side, span, Rows{gradient, -1.0});
  }

 private:
  struct RowsAndGradient {
    const double* rows = nullptr;
    const double* gradient = nullptr;  // of the turned rows
  };
  // y = (a cos - b sin, b cos + a sin): the gradients of cos and sin tables.
  void AddToTables(const CallView& call, Side side, const RowSpan& span,
                   const RowsAndGradient& at, const GradientSink& sink) const;
  // Element of the tables for a row and pair; -1 beyond them.
  int64_t TableIndex(const CallView& call, const RowSpan& at, int64_t position,
                     int64_t pair) const {
    const ParameterView cos(call.args.inputs[*spec_.cos]);
    // A table is by position (rank 2), or by batch entry and row (rank 3). A
    // position that it does not reach has no angle.
    const int64_t row = cos.rank() == 2 ? position : at.begin;
    if (row < 0 || row >= cos.extent(cos.rank() - 2)) return -1;
    return cos.HeadOffset(at.batch, 2) + row * (RotaryDim() / 2) + pair;
  }
  // Rows to turn, forward (1) or back (-1).
  template <typename T>
  struct Rows {
    Rows(T* rows, double sign) : data(rows), direction(sign) {}
    T* data;
    double direction;
  };

  int64_t Width(Side side) const {
    return side == Side::kQuery ? shape_.q_dim : shape_.k_dim;
  }
  int64_t Position(const CallView& call, Side side, int64_t batch,
                   int64_t row) const {
    const bool query = side == Side::kQuery;
    const auto& input = query ? spec_.query_positions : spec_.key_positions;
    if (!input.has_value()) {
      return row + (query ? spec_.query_offset : spec_.key_offset);
    }
    const ParameterView positions(call.args.inputs[*input]);
    return positions.IndexAt(positions.HeadOffset(batch, 1) + row);
  }
  Turn TurnOf(const CallView& call, const RowSpan& at, int64_t position,
              int64_t pair) const {
    if (!spec_.cos.has_value()) {
      const double angle = static_cast<double>(position) /
                           spec_.position_scale *
                           frequencies_[static_cast<size_t>(pair)];
      return {std::cos(angle), std::sin(angle)};
    }
    const int64_t index = TableIndex(call, at, position, pair);
    if (index < 0) return {kNaN, kNaN};
    return {ParameterView(call.args.inputs[*spec_.cos]).At(index),
            ParameterView(call.args.inputs[*spec_.sin]).At(index)};
  }
  int64_t RotaryDim() const {
    return spec_.rotary_dim.value_or(std::min(shape_.q_dim, shape_.k_dim));
  }
  // Those of one row of keys.
  void ComputeTurns(const CallView& call, const RowSpan& at,
                    Turn* turns) const {
    const int64_t position = Position(call, Side::kKey, at.batch, at.begin);
    for (int64_t i = 0; i < RotaryDim() / 2; ++i) {
      turns[i] = TurnOf(call, at, position, i);
    }
  }

  // One row; `turn_of` gives the turn of a pair.
  template <typename T, typename TurnOfPair>
  void TurnRow(const Rows<T>& row, TurnOfPair turn_of) const {
    const int64_t half = RotaryDim() / 2;
    const bool interleaved = spec_.layout == RotaryLayout::kInterleaved;
    for (int64_t i = 0; i < half; ++i) {
      T& a = row.data[interleaved ? 2 * i : i];
      T& b = row.data[interleaved ? 2 * i + 1 : i + half];
      const Turn turn = turn_of(i);
      const auto x = static_cast<double>(a);
      const auto y = static_cast<double>(b);
      a = static_cast<T>(x * turn.cos - row.direction * y * turn.sin);
      b = static_cast<T>(y * turn.cos + row.direction * x * turn.sin);
    }
  }
  template <typename T>
  void TurnRows(const CallView& call, Side side, const RowSpan& span,
                const Rows<T>& rows) const {
    for (int64_t r = 0; r < span.count; ++r) {
      const RowSpan at{span.batch, span.head, span.begin + r, 1};
      const int64_t position = Position(call, side, span.batch, at.begin);
      TurnRow(Rows{rows.data + r * Width(side), rows.direction},
              [&](int64_t pair) { return TurnOf(call, at, position, pair); });
    }
  }

  RotaryTransform spec_;
  AttentionShape shape_;
  // base^(-2i / rotary_dim) of each pair; none where angles come in tables.
  std::vector<double> frequencies_;
};

void Rotary::AddToTables(const CallView& call, Side side, const RowSpan& span,
                         const RowsAndGradient& at,
                         const GradientSink& sink) const {
  if (!spec_.cos.has_value()) return;
  double* of_cos = sink.Of(*spec_.cos);
  double* of_sin = sink.Of(*spec_.sin);
  if (of_cos == nullptr && of_sin == nullptr) return;
  const int64_t half = RotaryDim() / 2;
  const bool interleaved = spec_.layout == RotaryLayout::kInterleaved;
  for (int64_t r = 0; r < span.count; ++r) {
    const double* x = at.rows + r * Width(side);
    const double* g = at.gradient + r * Width(side);
    const RowSpan row{span.batch, span.head, span.begin + r, 1};
    const int64_t position = Position(call, side, span.batch, row.begin);
    for (int64_t i = 0; i < half; ++i) {
      const int64_t index = TableIndex(call, row, position, i);
      if (index < 0) continue;
      const int64_t a = interleaved ? 2 * i : i;
      const int64_t b = interleaved ? 2 * i + 1 : i + half;
      if (of_cos != nullptr) of_cos[index] += g[a] * x[a] + g[b] * x[b];
      if (of_sin != nullptr) of_sin[index] += g[b] * x[a] - g[a] * x[b];
    }
  }
}

absl::Status CheckNumbers(const RotaryTransform& rotary, const Problem& problem,
                          absl::string_view field) {
  const int64_t width = std::min(problem.shape.q_dim, problem.shape.k_dim);
  const int64_t dim = rotary.rotary_dim.value_or(width);
  if (dim < 0 || dim > width || dim % 2 != 0) {
    return FieldError(absl::StrCat(field, ".rotary_dim"), absl::StrCat(dim),
                      absl::StrCat("an even number from 0 to ", width));
  }
  for (const auto& [name, offset] :
       {std::pair(".query_offset", rotary.query_offset),
        std::pair(".key_offset", rotary.key_offset)}) {
    if (offset >= -kMaxOffset && offset <= kMaxOffset) continue;
    return FieldError(absl::StrCat(field, name), absl::StrCat(offset),
                      "-2^52 to 2^52: a double holds every position then");
  }
  if (!std::isfinite(rotary.base) || rotary.base <= 0) {
    return FieldError(absl::StrCat(field, ".base"), absl::StrCat(rotary.base),
                      "a finite number above 0");
  }
  if (!std::isfinite(rotary.position_scale) || rotary.position_scale <= 0) {
    return FieldError(absl::StrCat(field, ".position_scale"),
                      absl::StrCat(rotary.position_scale),
                      "a finite number above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckPositions(const RotaryTransform& rotary,
                            const Problem& problem, absl::string_view field) {
  const AttentionShape& shape = problem.shape;
  if (rotary.query_positions.has_value()) {
    absl::Status status = CheckIndices(
        problem, *rotary.query_positions,
        {Shape{shape.batch, shape.q_length}, Shape{shape.q_length}},
        absl::StrCat(field, ".query_positions.input"));
    if (!status.ok()) return status;
  }
  if (!rotary.key_positions.has_value()) return absl::OkStatus();
  return CheckIndices(
      problem, *rotary.key_positions,
      {Shape{shape.batch, shape.kv_length}, Shape{shape.kv_length}},
      absl::StrCat(field, ".key_positions.input"));
}

// Rows that turn, on one side.
struct TurnedRows {
  bool turned = false;
  bool has_positions = false;
  int64_t offset = 0;
  int64_t length = 0;
  const char* offset_name = nullptr;
};

std::array<TurnedRows, 2> TurnedSides(const RotaryTransform& rotary,
                                      const AttentionShape& shape) {
  return {{{TargetCovers(rotary.target, Side::kQuery),
            rotary.query_positions.has_value(), rotary.query_offset,
            shape.q_length, ".query_offset"},
           {TargetCovers(rotary.target, Side::kKey),
            rotary.key_positions.has_value(), rotary.key_offset,
            shape.kv_length, ".key_offset"}}};
}

// A table by position must reach every position that a row has without being
// given one: those that are given are data.
absl::Status CheckReach(const RotaryTransform& rotary, const Problem& problem,
                        int64_t rows, const std::string& field,
                        absl::string_view name) {
  for (const TurnedRows& side : TurnedSides(rotary, problem.shape)) {
    if (!side.turned || side.has_positions || side.length == 0) continue;
    if (side.offset < 0) {
      return FieldError(absl::StrCat(field, side.offset_name),
                        absl::StrCat(side.offset),
                        "a number >= 0: a table begins at position 0");
    }
    if (side.offset + side.length > rows) {
      return FieldError(absl::StrCat(field, name),
                        absl::StrCat(rows, " positions"),
                        absl::StrCat("at least ", side.offset + side.length));
    }
  }
  return absl::OkStatus();
}

// `name`: ".cos.input" or ".sin.input".
absl::Status CheckTable(const RotaryTransform& rotary, const Problem& problem,
                        uint32_t input, const std::string& field,
                        absl::string_view name) {
  const AttentionShape& shape = problem.shape;
  const int64_t pairs =
      rotary.rotary_dim.value_or(std::min(shape.q_dim, shape.k_dim)) / 2;
  if (input < problem.inputs.size() &&
      problem.inputs[input].shape.rank() == 2) {
    const int64_t rows = problem.inputs[input].shape[0];
    absl::Status status = CheckReach(rotary, problem, rows, field, name);
    if (!status.ok()) return status;
    return CheckParameter(problem, input, {Shape{rows, pairs}},
                          absl::StrCat(field, name));
  }
  // By row: a table of one side's rows has no angles for the other's.
  for (const TurnedRows& side : TurnedSides(rotary, shape)) {
    if (!side.turned) continue;
    absl::Status status =
        CheckParameter(problem, input, {Shape{shape.batch, side.length, pairs}},
                       absl::StrCat(field, name));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Validate(const TransformSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& rotary = std::get<RotaryTransform>(spec);
  const std::string field = absl::StrCat(list_field, ".rotary");
  absl::Status status = CheckNumbers(rotary, problem, field);
  if (!status.ok()) return status;
  status = CheckPositions(rotary, problem, field);
  if (!status.ok()) return status;
  if (rotary.cos.has_value() != rotary.sin.has_value()) {
    return FieldError(absl::StrCat(field, rotary.cos ? ".sin" : ".cos"),
                      "nothing", "a table: cos and sin go together");
  }
  if (!rotary.cos.has_value()) return absl::OkStatus();
  status = CheckTable(rotary, problem, *rotary.cos, field, ".cos.input");
  if (!status.ok()) return status;
  status = CheckTable(rotary, problem, *rotary.sin, field, ".sin.input");
  if (!status.ok()) return status;
  // A position that is data is looked for in the one, and read from both.
  const Shape& cos = problem.inputs[*rotary.cos].shape;
  const Shape& sin = problem.inputs[*rotary.sin].shape;
  if (sin == cos) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".sin.input"), sin.ToString(),
                    absl::StrCat(cos.ToString(), ", as cos"));
}

std::string Describe(const TransformSpec& spec) {
  const auto& rotary = std::get<RotaryTransform>(spec);
  return absl::StrCat("rotary", TargetName(rotary.target),
                      rotary.layout == RotaryLayout::kInterleaved
                          ? "(interleaved)"
                          : "(half_split)");
}

std::unique_ptr<Transform> Make(const TransformSpec& spec,
                                const Problem& problem) {
  return std::make_unique<Rotary>(std::get<RotaryTransform>(spec),
                                  problem.shape);
}

}  // namespace

TransformEntry RotaryTransformEntry() {
  return {"rotary", "turns pairs of elements by an angle of the position",
          0,        Validate,
          Describe, Make};
}

}  // namespace attn
