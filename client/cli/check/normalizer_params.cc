#include "client/cli/check/normalizer_params.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

// A number of the normalizer, or what it is if it is not there.
absl::StatusOr<double> Number(const json& normalizer, const char* key,
                              double otherwise) {
  if (!normalizer.contains(key) || normalizer[key].is_null()) return otherwise;
  return NumberFromJson(normalizer[key]);
}

absl::StatusOr<Divisor> DivisorOf(const json& normalizer) {
  const std::string text = normalizer.value("divide_by", "none");
  if (text == "none") return Divisor::kOne;
  if (text == "number of allowed keys") return Divisor::kVisibleKeys;
  return Skip(absl::StrCat("division by ", text));
}

absl::Status ApplySoftmax(const json& normalizer, ServiceCall& call) {
  for (const auto& [key, value] : normalizer.items()) {
    if (key == "kind" || (key == "alpha" && value == 1.0)) continue;
    return Skip(absl::StrCat("softmax with ", key));
  }
  call.spec.normalizer = SoftmaxNormalizer{};
  return absl::OkStatus();
}

absl::Status ApplySoftmaxN(const json& normalizer, ServiceCall& call) {
  const auto n = Number(normalizer, "n", 1);
  if (!n.ok()) return n.status();
  call.spec.normalizer = SoftmaxPlusNormalizer{.n = *n};
  return absl::OkStatus();
}

absl::Status ApplySparsemax(const json& /*normalizer*/, ServiceCall& call) {
  call.spec.normalizer = SparsemaxNormalizer{};
  return absl::OkStatus();
}

absl::Status ApplyEntmax(const json& normalizer, ServiceCall& call) {
  constexpr double kDefaultAlpha = 1.5;
  const auto alpha = Number(normalizer, "alpha", kDefaultAlpha);
  if (!alpha.ok()) return alpha.status();
  call.spec.normalizer = EntmaxNormalizer{.alpha = *alpha, .alphas = {}};
  return absl::OkStatus();
}

absl::Status ApplySigmoid(const json& normalizer, ServiceCall& call) {
  const auto bias = Number(normalizer, "bias", 0);
  if (!bias.ok()) return bias.status();
  const auto divisor = DivisorOf(normalizer);
  if (!divisor.ok()) return divisor.status();
  call.spec.normalizer = SigmoidNormalizer{.bias = *bias, .divisor = *divisor};
  return absl::OkStatus();
}

absl::Status ApplyRelu(const json& normalizer, ServiceCall& call) {
  const auto power = Number(normalizer, "power", 1);
  if (!power.ok()) return power.status();
  const auto divisor = DivisorOf(normalizer);
  if (!divisor.ok()) return divisor.status();
  call.spec.normalizer = ReluNormalizer{.power = *power, .divisor = *divisor};
  return absl::OkStatus();
}

// f(x) / (sum f(x) + eps). A sigmoid is a program on the scores: it is never
// negative, so that the division's own relu leaves it alone.
absl::Status ApplyDivisive(const json& normalizer, ServiceCall& call) {
  const auto eps = Number(normalizer, "eps", 0);
  if (!eps.ok()) return eps.status();
  const std::string activation = normalizer.value("activation", "");
  if (activation == "sigmoid") {
    call.spec.score_program =
        ProgramSpec{.source = "sigmoid(score)", .tables = {}};
  } else if (activation != "relu") {
    return Skip(absl::StrCat("linear_divisive of ", activation));
  }
  call.spec.normalizer = DivisiveNormalizer{.eps = *eps};
  return absl::OkStatus();
}

// linear_divisive of a feature map's products.
absl::Status ApplyLinear(const json& normalizer, ServiceCall& call) {
  LinearNormalizer linear;
  const auto eps = Number(normalizer, "eps", linear.eps);
  if (!eps.ok()) return eps.status();
  linear.eps = *eps;
  linear.bidirectional = true;
  call.spec.normalizer = linear;
  return absl::OkStatus();
}

struct NormalizerKindRow {
  const char* kind;
  absl::Status (*apply)(const json& normalizer, ServiceCall& call);
};

constexpr NormalizerKindRow kNormalizerKinds[] = {
    {"softmax", ApplySoftmax},          {"softmax_n", ApplySoftmaxN},
    {"sparsemax", ApplySparsemax},      {"entmax", ApplyEntmax},
    {"sigmoid", ApplySigmoid},          {"relu", ApplyRelu},
    {"linear_divisive", ApplyDivisive},
};

absl::Status ApplyNormalizerKind(const Case& tested, ServiceCall& call) {
  const json normalizer = tested.params.value("normalizer", json::object());
  const std::string kind = normalizer.value("kind", "softmax");
  const json score = tested.params.value("score", json::object());
  if (kind == "linear_divisive" && score.value("kind", "") == "feature_map") {
    return ApplyLinear(normalizer, call);
  }
  for (const NormalizerKindRow& row : kNormalizerKinds) {
    if (kind == row.kind) return row.apply(normalizer, call);
  }
  return Skip(absl::StrCat("normalizer ", kind));
}

// {"kind": "learned_logit_per_q_head"}, or that word alone; null: no sink.
absl::Status ApplySink(const Case& tested, ServiceCall& call) {
  const json sink = tested.params.value("sink", json());
  if (sink.is_null()) return absl::OkStatus();
  const json kind = sink.is_object() ? sink.value("kind", json()) : sink;
  const HostTensor* logits = tested.Input("sink");
  auto* softmax = std::get_if<SoftmaxNormalizer>(&call.spec.normalizer);
  if (kind != "learned_logit_per_q_head" || logits == nullptr ||
      softmax == nullptr) {
    return Skip(absl::StrCat("sink ", sink.dump()));
  }
  softmax->sink = call.AddNamed("sink", *logits);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyNormalizer(const Case& tested, ServiceCall& call) {
  absl::Status status = ApplyNormalizerKind(tested, call);
  return status.ok() ? ApplySink(tested, call) : status;
}

absl::Status ApplySparsity(const Case& tested, TieRule ties,
                           ServiceCall& call) {
  const json sparsity = tested.params.value("sparsity", json());
  if (sparsity.is_null()) return absl::OkStatus();
  const json kind = sparsity.value("kind", json());
  if (kind == "topk" && sparsity.value("k", json()).is_number_integer()) {
    call.spec.sparsifiers.emplace_back(
        TopKSparsifier{.k = sparsity["k"].get<int64_t>(), .ties = ties});
    return absl::OkStatus();
  }
  if (kind == "threshold" && sparsity.contains("min_logit")) {
    const auto least = NumberFromJson(sparsity["min_logit"]);
    if (!least.ok()) return least.status();
    call.spec.sparsifiers.emplace_back(
        ThresholdSparsifier{.min_logit = *least, .below_max = {}});
    return absl::OkStatus();
  }
  return Skip(absl::StrCat("sparsity ", kind.dump()));
}

absl::Status ApplyDropout(const Case& tested, ServiceCall& call) {
  const json dropout = tested.params.value("dropout", json());
  if (dropout.is_null()) return absl::OkStatus();
  const auto p = NumberFromJson(dropout.value("p", json()));
  if (!p.ok()) return p.status();
  const HostTensor* keep = tested.Input("dropout_keep");
  // A mask drawn by another generator cannot be met by a seed.
  if (keep == nullptr) return Skip("dropout without its keep mask");
  DropoutSpec spec;
  spec.p = *p;
  spec.keep = call.AddInput(keep->To(DType::kBool));
  call.spec.dropout = spec;
  return absl::OkStatus();
}

}  // namespace attn
