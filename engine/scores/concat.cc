// v . f(W [q; k]): "concat" of Luong et al. 2015, section 3.1. The upper rows
// of W belong to q, the lower ones to k.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/scores/hidden_layer_score.h"
#include "engine/scores/members.h"

namespace attn {
namespace {

// Width of the hidden layer: the extent of v, -1 if there is no v.
int64_t HiddenWidth(const ConcatScore& concat, const Problem& problem) {
  if (concat.v >= problem.inputs.size()) return -1;
  const Shape& shape = problem.inputs[concat.v].shape;
  return shape.rank() == 1 ? shape[0] : -1;
}

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view score_field) {
  const auto& concat = std::get<ConcatScore>(spec);
  const std::string field = absl::StrCat(score_field, ".concat");
  // Of an input that cannot be v some rank-1 shape is expected.
  const int64_t hidden = std::max<int64_t>(HiddenWidth(concat, problem), 1);
  absl::Status status = CheckParameter(problem, concat.v, {Shape{hidden}},
                                       absl::StrCat(field, ".v.input"));
  if (!status.ok()) return status;
  return CheckParameter(
      problem, concat.weight,
      {Shape{problem.shape.q_dim + problem.shape.k_dim, hidden}},
      absl::StrCat(field, ".weight.input"));
}

std::string Describe(const ScoreSpec& spec) {
  return absl::StrCat(
      "concat(", ActivationName(std::get<ConcatScore>(spec).activation), ")");
}

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  const auto& concat = std::get<ConcatScore>(spec);
  HiddenLayer layer;
  layer.width = HiddenWidth(concat, problem);
  layer.query = {concat.weight, 0, false};
  layer.key = {concat.weight, problem.shape.q_dim * layer.width, false};
  layer.v = concat.v;
  layer.activation = concat.activation;
  return MakeHiddenLayerScore(layer, problem.shape);
}

}  // namespace

ScoreEntry ConcatScoreEntry() {
  return {"concat", "v . f(W [q; k]), Luong's concat score",
          3,        Validate,
          Describe, Make};
}

}  // namespace attn
