// v . f(q W_q + b + k W_k) + bias (Bahdanau et al. 2015, appendix A.1.2).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/scores/hidden_layer_score.h"
#include "engine/scores/members.h"

namespace attn {
namespace {

bool HasRank(const Problem& problem, const std::optional<uint32_t>& input,
             int rank) {
  return input.has_value() && *input < problem.inputs.size() &&
         problem.inputs[*input].shape.rank() == rank;
}

// Width of the hidden layer: the last extent of v, -1 if there is no v.
int64_t HiddenWidth(const AdditiveScore& additive, const Problem& problem) {
  if (additive.v >= problem.inputs.size()) return -1;
  const Shape& shape = problem.inputs[additive.v].shape;
  return shape.rank() == 0 ? -1 : shape[shape.rank() - 1];
}

// A row without a weight is its own projection.
absl::Status CheckSide(const Problem& problem,
                       const std::optional<uint32_t>& weight, int64_t hidden,
                       bool query, const std::string& field) {
  const AttentionShape& shape = problem.shape;
  const int64_t dim = query ? shape.q_dim : shape.k_dim;
  const int64_t heads = query ? shape.q_heads : shape.kv_heads;
  const char* name = query ? ".query_weight" : ".key_weight";
  if (weight.has_value()) {
    return CheckParameter(problem, *weight,
                          {Shape{dim, hidden}, Shape{heads, dim, hidden}},
                          absl::StrCat(field, name, ".input"));
  }
  if (dim == hidden) return absl::OkStatus();
  return FieldError(absl::StrCat(field, name), "nothing",
                    absl::StrCat("a weight from ", dim, " to the ", hidden,
                                 " elements of v"));
}

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view score_field) {
  const auto& additive = std::get<AdditiveScore>(spec);
  const std::string field = absl::StrCat(score_field, ".additive");
  const int64_t hidden = HiddenWidth(additive, problem);
  const int64_t heads = problem.shape.q_heads;
  if (!std::isfinite(additive.bias)) {
    return FieldError(absl::StrCat(field, ".bias"), absl::StrCat(additive.bias),
                      "a finite number");
  }
  for (const absl::Status& status :
       {CheckParameter(problem, additive.v,
                       {Shape{hidden}, Shape{heads, hidden}},
                       absl::StrCat(field, ".v.input")),
        CheckSide(problem, additive.query_weight, hidden, true, field),
        CheckSide(problem, additive.key_weight, hidden, false, field)}) {
    if (!status.ok()) return status;
  }
  if (!additive.query_bias.has_value()) return absl::OkStatus();
  return CheckParameter(problem, *additive.query_bias,
                        {Shape{hidden}, Shape{heads, hidden}},
                        absl::StrCat(field, ".query_bias.input"));
}

std::string Describe(const ScoreSpec& spec) {
  return absl::StrCat("additive(",
                      ActivationName(std::get<AdditiveScore>(spec).activation),
                      ")");
}

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  const auto& additive = std::get<AdditiveScore>(spec);
  HiddenLayer layer;
  layer.query = {additive.query_weight, 0,
                 HasRank(problem, additive.query_weight, 3)};
  layer.key = {additive.key_weight, 0,
               HasRank(problem, additive.key_weight, 3)};
  layer.query_bias = additive.query_bias;
  layer.v = additive.v;
  layer.width = HiddenWidth(additive, problem);
  layer.activation = additive.activation;
  layer.bias = additive.bias;
  return MakeHiddenLayerScore(layer, problem.shape);
}

}  // namespace

ScoreEntry AdditiveScoreEntry() {
  return {"additive", "v . f(q W_q + b + k W_k) + bias, Bahdanau's score",
          2,          Validate,
          Describe,   Make};
}

}  // namespace attn
