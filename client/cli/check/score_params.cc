#include "client/cli/check/score_params.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

// What a score is made from.
struct ScoreCase {
  const Case& tested;
  const json& score;
  ServiceCall& call;

  // Index of a copy of the case's input. Skip() if it is not there.
  absl::StatusOr<uint32_t> Add(const std::string& name) const {
    const HostTensor* input = tested.Input(name);
    if (input == nullptr) return Skip(absl::StrCat("a score without ", name));
    return call.AddNamed(name, *input);
  }
  // The same with the axes swapped: layers that store [out, in].
  absl::StatusOr<uint32_t> AddTransposed(const std::string& name) const {
    const HostTensor* input = tested.Input(name);
    if (input == nullptr) return Skip(absl::StrCat("a score without ", name));
    return call.AddTransposed(name, *input);
  }
  // Absent: not in the parameters.
  absl::StatusOr<std::optional<double>> Number(const char* key) const {
    if (!score.contains(key) || score[key].is_null()) {
      return std::optional<double>();
    }
    auto number = NumberFromJson(score[key]);
    if (!number.ok()) return number.status();
    return std::optional<double>(*number);
  }
};

absl::Status ApplyDot(const ScoreCase& from) {
  const auto scale = from.Number("scale");
  if (!scale.ok()) return scale.status();
  DotScore dot{.scale = *scale, .learned_scale = std::nullopt};
  if (from.score.value("kind", "") == "dot" && !scale->has_value()) {
    dot.scale = 1;
  }
  from.call.spec.score = dot;
  return absl::OkStatus();
}

// phi(q) . phi(k): the normalizer has the feature map.
absl::Status ApplyFeatureMap(const ScoreCase& from) {
  if (from.score.value("phi", "") != "elu(x)+1") {
    return Skip(absl::StrCat("feature map ", from.score.value("phi", "?")));
  }
  return ApplyDot(from);
}

absl::Status ApplyAdditive(const ScoreCase& from) {
  AdditiveScore additive;
  absl::StatusOr<uint32_t> v = 0;
  if (from.tested.HasInput("linear_query_weight")) {
    auto query = from.AddTransposed("linear_query_weight");
    auto key = from.AddTransposed("linear_context_weight");
    auto bias = from.Add("linear_query_bias");
    for (const auto* index : {&query, &key, &bias}) {
      if (!index->ok()) return index->status();
    }
    additive.query_weight = *query;
    additive.key_weight = *key;
    additive.query_bias = *bias;
    const HostTensor* weights = from.tested.Input("v_weight");
    if (weights == nullptr) return Skip("an additive score without v_weight");
    auto flat = Reshaped(*weights, Shape{weights->element_count()});
    if (!flat.ok()) return flat.status();
    v = from.call.AddNamed("v_weight", *flat);
  } else {
    v = from.Add("va");
    if (from.tested.HasInput("wq")) {
      auto query = from.Add("wq");
      auto key = from.Add("wk");
      if (!key.ok()) return key.status();
      additive.query_weight = *query;
      additive.key_weight = *key;
    }
  }
  if (!v.ok()) return v.status();
  additive.v = *v;
  from.call.spec.score = additive;
  return absl::OkStatus();
}

// c * sum tanh(s (q + k)): a hidden layer of [s I; s I] and v = c.
absl::Status ApplyKerasConcat(const ScoreCase& from) {
  const auto factor = from.Number("concat_score_weight");
  const auto scale = from.Number("scale");
  if (!factor.ok()) return factor.status();
  if (!scale.ok()) return scale.status();
  const int64_t width = from.call.q.shape()[3];
  HostTensor weight(DType::kF64, Shape{2 * width, width});
  for (int64_t row = 0; row < 2 * width; ++row) {
    weight.Set(row * width + row % width, scale->value_or(1));
  }
  const uint32_t layer = from.call.AddInput(std::move(weight));
  from.call.spec.score = ConcatScore{
      .weight = layer,
      .v = from.call.AddInput(Filled(Shape{width}, factor->value_or(1)))};
  return absl::OkStatus();
}

absl::Status ApplyGeneral(const ScoreCase& from) {
  const auto bias = from.Number("b");
  if (!bias.ok()) return bias.status();
  const auto weight = from.tested.HasInput("w")
                          ? from.Add("w")
                          : from.AddTransposed("linear_in_weight");
  if (!weight.ok()) return weight.status();
  from.call.spec.score = BilinearScore{
      .weight = *weight, .bias = bias->value_or(0), .scale = std::nullopt};
  return absl::OkStatus();
}

absl::Status ApplyTrilinear(const ScoreCase& from) {
  const auto bias = from.Number("b");
  if (!bias.ok()) return bias.status();
  const auto weight = from.Add("w");
  if (!weight.ok()) return weight.status();
  from.call.spec.score =
      TrilinearScore{.weight = *weight, .bias = bias->value_or(0)};
  return absl::OkStatus();
}

// With logit_scale: exp(min(logit_scale[h], ln 100)) times the cosine.
absl::Status ApplyCosine(const ScoreCase& from) {
  constexpr double kMaxFactor = 100;
  const auto factor = from.Number("scale");
  if (!factor.ok()) return factor.status();
  CosineScore cosine;
  cosine.scale = *factor;
  const json scales = from.score.value("logit_scale", json());
  if (!scales.is_null()) {
    HostTensor values(DType::kF64, Shape{static_cast<int64_t>(scales.size())});
    int64_t at = 0;
    for (const json& log_scale : scales) {
      const auto number = NumberFromJson(log_scale);
      if (!number.ok()) return number.status();
      values.Set(at++, *number);
    }
    cosine.learned_scale =
        LearnedScale{.log_scale = from.call.AddInput(std::move(values)),
                     .max_log_scale = std::log(kMaxFactor)};
  }
  from.call.spec.score = cosine;
  return absl::OkStatus();
}

absl::Status ApplyDistance(const ScoreCase& from) {
  const auto scale = from.Number("scale");
  if (!scale.ok()) return scale.status();
  const std::string kind = from.score.value("kind", "");
  Distance distance = Distance::kSquaredL2;
  if (kind == "neg_l1") distance = Distance::kL1;
  if (kind == "neg_l2") distance = Distance::kL2;
  from.call.spec.score = DistanceScore{.distance = distance, .scale = *scale};
  return absl::OkStatus();
}

struct ScoreKindRow {
  const char* kind;
  absl::Status (*apply)(const ScoreCase& from);
};

constexpr ScoreKindRow kScoreKinds[] = {
    {"scaled_dot", ApplyDot},           {"dot", ApplyDot},
    {"feature_map", ApplyFeatureMap},   {"additive", ApplyAdditive},
    {"keras_concat", ApplyKerasConcat}, {"general", ApplyGeneral},
    {"trilinear", ApplyTrilinear},      {"cosine", ApplyCosine},
    {"neg_sq_l2", ApplyDistance},       {"neg_l1", ApplyDistance},
    {"neg_l2", ApplyDistance},
};

}  // namespace

absl::Status ApplyScore(const Case& tested, ServiceCall& call) {
  const json score = tested.params.value("score", json::object());
  const std::string kind = score.value("kind", "scaled_dot");
  for (const ScoreKindRow& row : kScoreKinds) {
    if (kind == row.kind) return row.apply({tested, score, call});
  }
  return Skip(absl::StrCat("score ", kind));
}

}  // namespace attn
