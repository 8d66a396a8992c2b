// Cases that give logits: they go in as a dense bias on top of q = 0.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
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
double Support(double weight, double /*keys*/) { return weight > 0 ? 1 : 0; }
double Perplexity(double entropy, double /*keys*/) { return std::exp(entropy); }
double OverLog(double entropy, double keys) { return entropy / std::log(keys); }

constexpr GiveRow kGives[] = {
    {"weights", "weights", Same},
    {"support", "weights", Support},
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

// The case's parameters on tensors of the right shape.
absl::StatusOr<ServiceCall> MakeCall(const Case& tested,
                                     const HostTensor& logits) {
  const Shape& shape = logits.shape();
  const int64_t keys = shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
  const int64_t rows = keys > 0 ? logits.element_count() / keys : 0;
  Case as_attention;
  as_attention.params = tested.params;
  // Words of this op that an attention case does not have.
  for (const char* word : {"entropy_unit", "rule"}) {
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

}  // namespace

absl::StatusOr<Outcome> HandleLogits(const Case& tested,
                                     const Service& service) {
  const auto logits = tested.inputs.find("logits");
  if (logits == tested.inputs.end()) return Skip("a case without logits");
  const auto call = MakeCall(tested, logits->second);
  if (!call.ok()) return call.status();
  std::vector<std::string> sources;
  for (const auto& [name, want] : tested.outputs) {
    const GiveRow* row = FindGive(name);
    if (row == nullptr) return Skip(absl::StrCat("output ", name));
    sources.emplace_back(row->source);
  }
  const auto outputs = service.Attend(*call, sources);
  if (!outputs.ok()) return outputs.status();
  const auto keys = static_cast<double>(call->kv_length());
  Outcome outcome;
  for (const auto& [name, want] : tested.outputs) {
    const GiveRow* row = FindGive(name);
    const HostTensor& source = outputs->at(row->source);
    if (source.dtype() == DType::kF32) outcome.single_precision.insert(name);
    outcome.got[name] = Map(source, DType::kF64, [row, keys](double value) {
      return row->convert(value, keys);
    });
  }
  return outcome;
}

}  // namespace attn
