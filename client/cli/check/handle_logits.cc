// Cases that give logits: they go in as a dense bias on top of q = 0.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
  } kRules[] = {{"weights_keep_all", TieRule::kKeepAll},
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
  for (const auto& rule : kRules) {
    one.spec.sparsifiers.clear();
    absl::Status status = ApplySparsity(tested, rule.ties, one);
    if (!status.ok()) return status;
    auto outputs = service.Attend(one, {"weights"});
    if (!outputs.ok()) return outputs.status();
    outcome.got[rule.output] = std::move(outputs->at("weights"));
  }
  return outcome;
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
  std::vector<std::string> sources;
  for (const auto& [name, want] : tested.outputs) {
    if (absl::EndsWith(tested.op, "_vjp") && absl::StartsWith(name, "d")) {
      outcome.forward_only = true;
      continue;
    }
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
    outcome.got[name] =
        name == kSupport ? SupportOf(source)
                         : Map(source, DType::kF64, [row, keys](double value) {
                             return row->convert(value, keys);
                           });
  }
  return outcome;
}

}  // namespace attn
