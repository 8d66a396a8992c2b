// Linear attention: no score matrix, so that the `linear` kernel does the work.
// What is here says which calls it can be part of.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/members.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

// Never asked to normalise: kRecurrent.
class Linear final : public Normalizer {
 public:
  NormalizerKind kind() const override { return NormalizerKind::kRecurrent; }
  void Normalize(const CallView& /*call*/, const Tile<float>& /*tile*/,
                 RowStatistics* /*statistics*/) const override {}
  void Normalize(const CallView& /*call*/, const Tile<double>& /*tile*/,
                 RowStatistics* /*statistics*/) const override {}
  void Backward(const CallView& /*call*/, const NormalizedTile& /*forward*/,
                const Tile<double>& /*gradient*/,
                const GradientSink& /*sink*/) const override {}
};

// Stages that act on scores, which linear attention does not form.
absl::Status CheckNoScoreStages(const Problem& problem) {
  constexpr char kExpected[] =
      "nothing: linear attention forms no scores that a stage could change";
  const AttentionSpec& spec = problem.spec;
  if (!std::holds_alternative<DotScore>(spec.score)) {
    return FieldError("spec.score", "another score", "dot or nothing");
  }
  if (spec.softcap) return FieldError("spec.softcap", "a cap", kExpected);
  if (!spec.biases.empty()) {
    return FieldError("spec.biases", "biases", kExpected);
  }
  if (!spec.masks.empty()) return FieldError("spec.masks", "masks", kExpected);
  if (!spec.temperatures.empty()) {
    return FieldError("spec.temperatures", "temperatures", kExpected);
  }
  if (!spec.sparsifiers.empty()) {
    return FieldError("spec.sparsifiers", "sparsifiers", kExpected);
  }
  if (spec.score_program) {
    return FieldError("spec.score_program", "a program", kExpected);
  }
  if (spec.weight_program) {
    return FieldError("spec.weight_program", "a program", kExpected);
  }
  if (spec.dropout) return FieldError("spec.dropout", "dropout", kExpected);
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Problem& problem) {
  const OutputSelection& outputs = problem.outputs;
  if (!outputs.logits && !outputs.masked_logits && !outputs.weights &&
      !outputs.dropout_keep && !outputs.contribution &&
      !outputs.gradient_weight) {
    return absl::OkStatus();
  }
  return FieldError("outputs", "logits, masked logits, weights or a keep mask",
                    "output and state: linear attention forms no scores");
}

absl::Status CheckTensors(const LinearNormalizer& linear,
                          const Problem& problem, const std::string& field) {
  const AttentionShape& s = problem.shape;
  if (linear.decay.has_value()) {
    absl::Status status =
        CheckParameter(problem, *linear.decay,
                       {Shape{s.batch, s.kv_length, s.kv_heads * s.k_dim},
                        Shape{s.batch, s.kv_length, s.kv_heads}},
                       absl::StrCat(field, ".decay.input"));
    if (!status.ok()) return status;
  }
  if (linear.beta.has_value()) {
    absl::Status status =
        CheckParameter(problem, *linear.beta,
                       {Shape{s.batch, s.kv_length, s.kv_heads},
                        Shape{s.batch, s.kv_length, 1}},
                       absl::StrCat(field, ".beta.input"));
    if (!status.ok()) return status;
  }
  if (!linear.state.has_value()) return absl::OkStatus();
  return CheckParameter(problem, *linear.state,
                        {Shape{s.batch, s.kv_heads, s.k_dim, s.v_dim}},
                        absl::StrCat(field, ".state.input"));
}

absl::Status CheckRule(const LinearNormalizer& linear,
                       const std::string& field) {
  const bool gated = linear.update_rule == UpdateRule::kGated ||
                     linear.update_rule == UpdateRule::kGatedDelta;
  const bool delta = linear.update_rule == UpdateRule::kDelta ||
                     linear.update_rule == UpdateRule::kGatedDelta;
  if (gated != linear.decay.has_value()) {
    return FieldError(absl::StrCat(field, ".decay"),
                      gated ? "nothing" : "a tensor",
                      gated ? "a tensor: the rule is gated"
                            : "nothing: the rule is not gated");
  }
  if (delta != linear.beta.has_value()) {
    return FieldError(absl::StrCat(field, ".beta"),
                      delta ? "nothing" : "a tensor",
                      delta ? "a tensor: the rule has a delta"
                            : "nothing: the rule has no delta");
  }
  if (linear.normalize && (gated || delta || linear.state.has_value())) {
    return FieldError(absl::StrCat(field, ".normalize"), "true",
                      "false: only the plain rule from an empty state has a "
                      "sum to divide by");
  }
  if (std::isfinite(linear.eps) && linear.eps >= 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".eps"), absl::StrCat(linear.eps),
                    "a finite number >= 0");
}

absl::Status Validate(const NormalizerSpec& spec, const Problem& problem,
                      absl::string_view normalizer_field) {
  const auto& linear = std::get<LinearNormalizer>(spec);
  const std::string field = absl::StrCat(normalizer_field, ".linear");
  for (const absl::Status& status :
       {CheckNoScoreStages(problem), CheckOutputs(problem),
        CheckRule(linear, field), CheckTensors(linear, problem, field)}) {
    if (!status.ok()) return status;
  }
  const AttentionShape& shape = problem.shape;
  if (linear.bidirectional || shape.q_length == shape.kv_length) {
    return absl::OkStatus();
  }
  return FieldError("q.shape", absl::StrCat("length ", shape.q_length),
                    absl::StrCat("length ", shape.kv_length,
                                 " as in k.shape, or a bidirectional spec"));
}

const char* RuleName(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kLinear:
      return "linear";
    case UpdateRule::kGated:
      return "gated";
    case UpdateRule::kDelta:
      return "delta";
    case UpdateRule::kGatedDelta:
      return "gated delta";
  }
  return "?";
}

std::string Describe(const NormalizerSpec& spec) {
  const auto& linear = std::get<LinearNormalizer>(spec);
  return absl::StrCat("linear(", RuleName(linear.update_rule),
                      linear.bidirectional ? ", bidirectional)" : ")");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& /*spec*/,
                                 const Problem& /*problem*/) {
  return std::make_unique<Linear>();
}

}  // namespace

NormalizerEntry LinearNormalizerEntry() {
  return {"linear", "no scores: out = phi(q) S with a running state S",
          10,       Validate,
          Describe, Make};
}

}  // namespace attn
