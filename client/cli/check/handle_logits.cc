// Cases that give logits: they go in as a dense bias on top of q = 0.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/attention_gradients.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/normalizer_params.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// Names of a case's outputs, and how they follow from the service's.
struct GiveRow {
  const char* output;
  const char* source;
  double (*convert)(double value, double keys);
};

double Same(double value, double /*keys*/) { return value; }
double Perplexity(double entropy, double /*keys*/) { return std::exp(entropy); }
double OverLog(double entropy, double keys) { return entropy / std::log(keys); }

constexpr char kSupport[] = "support";

constexpr GiveRow kGives[] = {
    {"weights", "weights", Same},
    {kSupport, "weights", Same},
    {"lse", "lse", Same},
    {"entropy", "entropy", Same},
    {"max_weight", "peak_weight", Same},
    {"argmax", "top_key", Same},
    {"perplexity", "entropy", Perplexity},
    {"normalized_entropy", "entropy", OverLog},
};

const GiveRow* FindGive(const std::string& output) {
  for (const GiveRow& row : kGives) {
    if (output == row.output) return &row;
  }
  return nullptr;
}

// Weights above 0 in each row.
HostTensor SupportOf(const HostTensor& weights) {
  const Shape& shape = weights.shape();
  HostTensor support(DType::kI64, Shape{shape[0], shape[1], shape[2]});
  for (int64_t i = 0; i < weights.element_count(); ++i) {
    const int64_t row = i / shape[3];
    if (weights.At(i) > 0) support.Set(row, support.At(row) + 1);
  }
  return support;
}

// The case's parameters on tensors of the right shape.
absl::StatusOr<ServiceCall> MakeCall(const Case& tested,
                                     const HostTensor& logits) {
  const Shape& shape = logits.shape();
  const int64_t keys = shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
  const int64_t rows = keys > 0 ? logits.element_count() / keys : 0;
  Case as_attention;
  as_attention.params = tested.params;
  // Words of this op that an attention case does not have.
  for (const char* word : {"entropy_unit", "rule", "tie_modes"}) {
    as_attention.params.erase(word);
  }
  as_attention.inputs.emplace("q", HostTensor(DType::kF32, {1, 1, rows, 1}));
  as_attention.inputs.emplace("k", HostTensor(DType::kF32, {1, 1, keys, 1}));
  as_attention.inputs.emplace("v", HostTensor(DType::kF32, {1, 1, keys, 1}));
  auto bias = Reshaped(logits, Shape{rows, keys});
  if (!bias.ok()) return bias.status();
  as_attention.inputs.emplace("bias", *std::move(bias));
  return ReadAttentionCall(as_attention);
}

// weights_keep_all, weights_lowest_index: one call for each rule.
absl::StatusOr<Outcome> HandleTies(const Case& tested, const ServiceCall& call,
                                   const Service& service) {
  constexpr struct {
    const char* output;
    TieRule ties;
  } kLogitRules[] = {{"weights_keep_all", TieRule::kKeepAll},
                     {"weights_lowest_index", TieRule::kLowestIndex}};
  Outcome outcome;
  ServiceCall one;
  one.spec = call.spec;
  one.q = HostTensor::Copy(call.q.view());
  one.k = HostTensor::Copy(call.k.view());
  one.v = HostTensor::Copy(call.v.view());
  for (const HostTensor& input : call.inputs) {
    one.inputs.push_back(HostTensor::Copy(input.view()));
  }
  for (const auto& rule : kLogitRules) {
    one.spec.sparsifiers.clear();
    absl::Status status = ApplySparsity(tested, rule.ties, one);
    if (!status.ok()) return status;
    auto outputs = service.Attend(one, {"weights"});
    if (!outputs.ok()) return outputs.status();
    outcome.got[rule.output] = std::move(outputs->at("weights"));
  }
  return outcome;
}

// The case's call with a head for each row, so that an alpha of a head is that
// of a row, and with values whose output is the weights: the identity.
absl::StatusOr<ServiceCall> ByRow(const ServiceCall& call) {
  const int64_t rows = call.q_length();
  const int64_t keys = call.kv_length();
  const uint32_t bias = call.places.at("bias").index;
  ServiceCall by_row;
  by_row.spec = call.spec;
  by_row.places = call.places;
  by_row.q = HostTensor(DType::kF32, {1, rows, 1, 1});
  by_row.k = HostTensor(DType::kF32, {1, 1, keys, 1});
  by_row.v = HostTensor(DType::kF32, {1, 1, keys, keys});
  for (int64_t key = 0; key < keys; ++key) {
    by_row.v.Set(key * (keys + 1), 1);
  }
  for (const HostTensor& input : call.inputs) {
    by_row.AddInput(HostTensor::Copy(input.view()));
  }
  auto logits = Reshaped(call.inputs[bias], Shape{rows, 1, keys});
  if (!logits.ok()) return logits.status();
  by_row.inputs[bias] = *std::move(logits);
  auto* entmax = std::get_if<EntmaxNormalizer>(&by_row.spec.normalizer);
  if (entmax != nullptr && entmax->alpha.has_value()) {
    entmax->alphas =
        by_row.AddNamed("alpha_per_row", Filled(Shape{rows}, *entmax->alpha));
    entmax->alpha.reset();
  }
  return by_row;
}

// dlogits and dalpha_per_row.
absl::Status AddLogitGradients(const Case& tested, const ServiceCall& call,
                               const Service& service, Outcome& outcome) {
  const HostTensor* d_weights = tested.Input("dweights");
  if (d_weights == nullptr) return absl::OkStatus();
  const auto by_row = ByRow(call);
  if (!by_row.ok()) return by_row.status();
  const auto d_output =
      Reshaped(*d_weights, Shape{1, call.q_length(), 1, call.kv_length()});
  if (!d_output.ok()) return d_output.status();
  const auto gradients =
      service.AttendBackward(*by_row, {.output = &*d_output, .lse = nullptr});
  if (!gradients.ok()) return gradients.status();
  for (const auto& [name, want] : tested.outputs) {
    if (!IsGradient(tested, name)) continue;
    const auto place =
        by_row->places.find(name == "dlogits" ? "bias" : name.substr(1));
    if (place == by_row->places.end()) {
      return Skip(absl::StrCat("output ", name));
    }
    auto gradient =
        Reshaped(gradients->inputs[place->second.index], want.shape());
    if (!gradient.ok()) return gradient.status();
    outcome.got[name] = *std::move(gradient);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> HandleLogits(const Case& tested,
                                     const Service& service) {
  const HostTensor* logits = tested.Input("logits");
  if (logits == nullptr) return Skip("a case without logits");
  const auto call = MakeCall(tested, *logits);
  if (!call.ok()) return call.status();
  if (tested.params.contains("tie_modes")) {
    return HandleTies(tested, *call, service);
  }
  Outcome outcome;
  absl::Status status = AddLogitGradients(tested, *call, service, outcome);
  if (!status.ok()) return status;
  std::vector<std::string> sources;
  for (const auto& [name, want] : tested.outputs) {
    if (IsGradient(tested, name)) continue;
    const GiveRow* row = FindGive(name);
    if (row == nullptr) return Skip(absl::StrCat("output ", name));
    sources.emplace_back(row->source);
  }
  const auto outputs = service.Attend(*call, sources);
  if (!outputs.ok()) return outputs.status();
  const auto keys = static_cast<double>(call->kv_length());
  for (const auto& [name, want] : tested.outputs) {
    const GiveRow* row = FindGive(name);
    if (row == nullptr) continue;
    const HostTensor& source = outputs->at(row->source);
    if (source.dtype() == DType::kF32) outcome.single_precision.insert(name);
    outcome.got[name] =
        name == kSupport ? SupportOf(source)
                         : Map(source, DType::kF64, [row, keys](double value) {
                             return row->convert(value, keys);
                           });
  }
  return outcome;
}

}  // namespace attn
