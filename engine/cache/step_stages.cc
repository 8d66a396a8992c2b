#include "engine/cache/step_stages.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/programs/token.h"

namespace attn {
namespace {

using Inputs = absl::Span<const TensorView>;

// One function for each member of a variant: a new one does not compile until
// it is decided what it means over steps.
template <typename... F>
struct ForEachMember : F... {
  using F::operator()...;
};
template <typename... F>
ForEachMember(F...) -> ForEachMember<F...>;

// An input that broadcasts to [.., Sq, Sk] must not have either axis.
absl::Status CheckWithoutLengths(uint32_t input, Inputs inputs,
                                 const std::string& field) {
  if (input >= inputs.size()) return absl::OkStatus();
  const Shape& shape = inputs[input].shape;
  for (int axis = shape.rank() - 1; axis >= 0 && axis >= shape.rank() - 2;
       --axis) {
    if (shape[axis] == 1) continue;
    return FieldError(field, shape.ToString(),
                      "last two extents of 1: a session's queries and keys "
                      "grow in number");
  }
  return absl::OkStatus();
}

absl::Status CheckProgramOfSteps(const ProgramSpec& program,
                                 const std::string& field) {
  const absl::string_view source = program.source;
  size_t offset = 0;
  for (Token token = NextToken(source, offset);
       token.kind != TokenKind::kEnd && token.kind != TokenKind::kWrong;
       token = NextToken(source, offset)) {
    offset = token.column - 1 + token.text.size();
    if (token.kind != TokenKind::kName) continue;
    const char* expected = nullptr;
    if (token.text == "q") {
      expected = "p, the query's position: rows of a step begin at 0 again";
    } else if (token.text == "Sq" || token.text == "Sk") {
      expected = "p, k or a number: each step has lengths of its own";
    }
    if (expected == nullptr) continue;
    return TokenError(absl::StrCat(field, ".source"), token, expected);
  }
  return absl::OkStatus();
}

absl::Status FitMasks(std::vector<MaskSpec>& masks, Inputs inputs,
                      const std::string& list);

template <typename Aligned>
absl::Status AlignAtEnd(Aligned& mask, const std::string& field) {
  if (mask.alignment == Alignment::kTopLeft) {
    return FieldError(absl::StrCat(field, ".alignment"), "TOP_LEFT",
                      "BOTTOM_RIGHT: the queries of a step are the last of "
                      "its keys");
  }
  mask.alignment = Alignment::kBottomRight;
  return absl::OkStatus();
}

absl::Status FitMask(MaskSpec& mask, Inputs inputs, const std::string& field) {
  const auto align = [&field](auto& member, const char* name) {
    return AlignAtEnd(member, absl::StrCat(field, ".", name));
  };
  return std::visit(
      ForEachMember{
          [&](CausalMask& member) { return align(member, "causal"); },
          [&](WindowMask& member) { return align(member, "window"); },
          [&](PrefixMask& member) { return align(member, "prefix"); },
          [&](GlobalMask& member) { return align(member, "global"); },
          [&](DilatedMask& member) { return align(member, "dilated"); },
          [&](StridedMask& member) { return align(member, "strided"); },
          [&](FixedMask& member) { return align(member, "fixed"); },
          [&](LongformerMask& member) { return align(member, "longformer"); },
          [&](StreamingMask& member) { return align(member, "streaming"); },
          [&](DenseMask& member) {
            return CheckWithoutLengths(
                member.input, inputs,
                absl::StrCat(field, ".dense.tensor.input"));
          },
          [&](SegmentMask&) {
            return FieldError(absl::StrCat(field, ".segment"), "set",
                              "none: segments are given row by row; a "
                              "program mask compares t[p] and t[k]");
          },
          [&](BlockSparseMask&) {
            return FieldError(absl::StrCat(field, ".block_sparse"), "set",
                              "a mask of positions: a layout is of all rows "
                              "of a call");
          },
          [&](BigBirdMask&) {
            return FieldError(absl::StrCat(field, ".big_bird"), "set",
                              "a mask of positions, as longformer: random "
                              "blocks are drawn from all keys of a call");
          },
          [&](AnyOfMask& member) {
            return FitMasks(member.masks, inputs,
                            absl::StrCat(field, ".any_of.masks"));
          },
          [&](ProgramMask& member) {
            return CheckProgramOfSteps(member.program,
                                       absl::StrCat(field, ".program.program"));
          }},
      static_cast<MaskSpec::variant&>(mask));
}

absl::Status FitMasks(std::vector<MaskSpec>& masks, Inputs inputs,
                      const std::string& list) {
  for (size_t i = 0; i < masks.size(); ++i) {
    absl::Status status =
        FitMask(masks[i], inputs, absl::StrCat(list, "[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckBias(const BiasSpec& bias, Inputs inputs,
                       const std::string& field) {
  const absl::Status fits;
  return std::visit(
      ForEachMember{[&](const DenseBias& member) {
                      return CheckWithoutLengths(
                          member.input, inputs,
                          absl::StrCat(field, ".dense.tensor.input"));
                    },
                    [&](const ContinuousPositionBias&) {
                      return FieldError(
                          absl::StrCat(field, ".continuous_position"), "set",
                          "a bias of distances, as relative_table: its "
                          "window has as many queries as keys");
                    },
                    [&](const AlibiBias&) { return fits; },
                    [&](const RelativeTableBias&) { return fits; },
                    [&](const T5Bias&) { return fits; },
                    [&](const ConstantBias&) { return fits; }},
      bias);
}

absl::Status CheckNormalizer(const NormalizerSpec& normalizer) {
  const absl::Status fits;
  return std::visit(
      ForEachMember{[&](const LinearNormalizer&) {
                      return FieldError(
                          "spec.normalizer.linear", "set",
                          "a normalizer of scores: a session keeps keys "
                          "and no state");
                    },
                    // Of a row of logits, whichever keys they are of.
                    [&](const SoftmaxNormalizer&) { return fits; },
                    [&](const SoftmaxPlusNormalizer&) { return fits; },
                    [&](const SparsemaxNormalizer&) { return fits; },
                    [&](const EntmaxNormalizer&) { return fits; },
                    [&](const SigmoidNormalizer&) { return fits; },
                    [&](const ReluNormalizer&) { return fits; },
                    [&](const DivisiveNormalizer&) { return fits; },
                    [&](const HardNormalizer&) { return fits; },
                    [&](const LocalNormalizer&) { return fits; },
                    [&](const IdentityNormalizer&) { return fits; }},
      normalizer);
}

// Positions of a session go on from an offset for 2^40 tokens at most, and
// those up to 2^52 are exact.
absl::Status CheckOffset(int64_t offset, const std::string& field) {
  constexpr int64_t kMost = (int64_t{1} << 52) - (int64_t{1} << 40);
  if (offset <= kMost) return absl::OkStatus();
  return FieldError(field, absl::StrCat(offset), "at most 2^52 - 2^40");
}

absl::Status CheckRotary(const RotaryTransform& rotary, Inputs inputs,
                         const std::string& field) {
  for (const auto& [name, positions] :
       {std::pair(".query_positions", rotary.query_positions),
        std::pair(".key_positions", rotary.key_positions)}) {
    if (!positions.has_value()) continue;
    return FieldError(absl::StrCat(field, name), "positions of rows",
                      "an offset: a session counts its positions");
  }
  for (const auto& [name, offset] :
       {std::pair(".query_offset", rotary.query_offset),
        std::pair(".key_offset", rotary.key_offset)}) {
    absl::Status status = CheckOffset(offset, absl::StrCat(field, name));
    if (!status.ok()) return status;
  }
  if (rotary.cos.has_value() && *rotary.cos < inputs.size() &&
      inputs[*rotary.cos].shape.rank() == 3) {
    return FieldError(absl::StrCat(field, ".cos.input"), "angles by row",
                      "by position, [positions, pairs]: rows of a session "
                      "come later");
  }
  return absl::OkStatus();
}

absl::Status CheckTransform(const TransformSpec& transform, Inputs inputs,
                            const std::string& field) {
  return std::visit(
      ForEachMember{[&](const RotaryTransform& member) {
                      return CheckRotary(member, inputs,
                                         absl::StrCat(field, ".rotary"));
                    },
                    [](const NormTransform&) { return absl::OkStatus(); }},
      transform);
}

absl::Status CheckHeadGate(uint32_t gate, Inputs inputs) {
  if (gate >= inputs.size() || inputs[gate].shape.rank() == 1) {
    return absl::OkStatus();
  }
  return FieldError("spec.head_gate.input", inputs[gate].shape.ToString(),
                    "[q_heads]: rows of a session come later");
}

// Calls `check(member, "field[i]")` for each of a list, until one fails.
template <typename List, typename Check>
absl::Status CheckList(const List& list, absl::string_view field, Check check) {
  for (size_t i = 0; i < list.size(); ++i) {
    absl::Status status = check(list[i], absl::StrCat(field, "[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// What is there, or is not, whatever its members.
absl::Status CheckParts(const AttentionSpec& spec, Inputs inputs) {
  if (spec.projections.has_value()) {
    return FieldError("spec.projections", "set",
                      "unset: a session keeps the keys of heads");
  }
  if (spec.kv_quantization.has_value()) {
    return FieldError("spec.kv_quantization", "set",
                      "unset: kv_dtype says how keys are kept");
  }
  if (spec.dropout.has_value()) {
    return FieldError("spec.dropout", "set",
                      "unset: what is kept is drawn by rows of a call");
  }
  if (spec.score_program.has_value()) {
    absl::Status status =
        CheckProgramOfSteps(*spec.score_program, "spec.score_program");
    if (!status.ok()) return status;
  }
  if (spec.weight_program.has_value()) {
    absl::Status status =
        CheckProgramOfSteps(*spec.weight_program, "spec.weight_program");
    if (!status.ok()) return status;
  }
  if (!spec.head_gate.has_value()) return absl::OkStatus();
  return CheckHeadGate(*spec.head_gate, inputs);
}

}  // namespace

absl::Status FitToSteps(AttentionSpec& spec, Inputs inputs) {
  // Scores compare two rows, and a softcap, temperatures and sparsifiers look
  // at a row of logits: they mean the same in every step. A stage that is added
  // to a spec does not compile until it is decided what it means.
  const auto& [transforms, score, softcap, biases, score_program, masks,
               temperatures, sparsifiers, normalizer, weight_program, dropout,
               head_gate, kv_quantization, projections] = spec.Fields();
  absl::Status status = CheckParts(spec, inputs);
  if (!status.ok()) return status;
  status = CheckList(transforms, "spec.transforms",
                     [&](const TransformSpec& member, const std::string& name) {
                       return CheckTransform(member, inputs, name);
                     });
  if (!status.ok()) return status;
  status = CheckList(biases, "spec.biases",
                     [&](const BiasSpec& member, const std::string& name) {
                       return CheckBias(member, inputs, name);
                     });
  if (!status.ok()) return status;
  status = CheckNormalizer(normalizer);
  if (!status.ok()) return status;
  return FitMasks(spec.masks, inputs, "spec.masks");
}

}  // namespace attn
