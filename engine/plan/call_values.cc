#include "engine/plan/call_values.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/call_view.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

absl::Status CheckAlphas(const NormalizerSpec& spec,
                         const AttentionArgs& args) {
  const auto* entmax = std::get_if<EntmaxNormalizer>(&spec);
  if (entmax == nullptr || !entmax->alphas.has_value()) {
    return absl::OkStatus();
  }
  const ParameterView alphas(args.inputs[*entmax->alphas]);
  for (int64_t head = 0; head < alphas.size(); ++head) {
    const double alpha = alphas.At(head);
    if (std::isfinite(alpha) && alpha >= 1) continue;
    return FieldError("spec.normalizer.entmax.alphas.input",
                      absl::StrCat(alpha, " for head ", head),
                      "finite numbers from 1 on");
  }
  return absl::OkStatus();
}

// Positions of one side's rows, looked up in a table of `reach` positions.
struct SidePositions {
  bool turned = false;
  std::optional<uint32_t> input;
  bool query = false;
  int64_t reach = 0;
};

absl::Status CheckPositions(const CallView& call, const SidePositions& side,
                            const std::string& field) {
  if (!side.turned || !side.input.has_value()) return absl::OkStatus();
  const ParameterView positions(call.args.inputs[*side.input]);
  for (int64_t b = 0; b < call.shape.batch; ++b) {
    const int64_t first = positions.HeadOffset(b, 1);
    const int64_t rows = side.query ? call.q_length(b) : call.kv_length(b);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t position = positions.IndexAt(first + row);
      if (position >= 0 && position < side.reach) continue;
      return FieldError(
          absl::StrCat(field, side.query ? ".query" : ".key",
                       "_positions.input"),
          absl::StrCat(position, " for row ", row, " of batch entry ", b),
          absl::StrCat("0 to ", side.reach - 1, ": the table has ", side.reach,
                       " positions"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRotary(const CallView& call, const TransformSpec& spec,
                         const std::string& field) {
  const auto* rotary = std::get_if<RotaryTransform>(&spec);
  if (rotary == nullptr || !rotary->cos.has_value()) return absl::OkStatus();
  const Shape& table = call.args.inputs[*rotary->cos].shape;
  // A table by row has no positions.
  if (table.rank() != 2) return absl::OkStatus();
  const TransformTarget target = rotary->target;
  absl::Status status =
      CheckPositions(call,
                     {target != TransformTarget::kKey, rotary->query_positions,
                      true, table[0]},
                     field);
  status.Update(CheckPositions(call,
                               {target != TransformTarget::kQuery,
                                rotary->key_positions, false, table[0]},
                               field));
  return status;
}

}  // namespace

absl::Status CheckCallValues(const Problem& problem,
                             const AttentionArgs& args) {
  const AttentionSpec& spec = problem.spec;
  absl::Status status = CheckAlphas(spec.normalizer, args);
  const CallView call{problem.shape, args};
  for (size_t i = 0; status.ok() && i < spec.transforms.size(); ++i) {
    status = CheckRotary(call, spec.transforms[i],
                         absl::StrCat("spec.transforms[", i, "].rotary"));
  }
  return status;
}

}  // namespace attn
