// Partial results: merged by the client library, so no call is made.
#include <utility>

#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"
#include "client/library/merge.h"

namespace attn {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

}  // namespace

absl::StatusOr<Outcome> HandleMerge(const Case& tested,
                                    const Service& /*service*/) {
  const auto outputs = tested.inputs.find("out_parts");
  const auto lses = tested.inputs.find("lse_parts");
  if (outputs == tested.inputs.end() || lses == tested.inputs.end()) {
    return Skip("a merge without out_parts and lse_parts");
  }
  if (tested.params.value("lse_base", "e") != "e") {
    return Skip("lse of another base than e");
  }
  auto merged = MergePartials(outputs->second.To(DType::kF64),
                              lses->second.To(DType::kF64));
  if (!merged.ok()) return merged.status();
  Outcome outcome;
  outcome.got.emplace("out", std::move(merged->output));
  outcome.got.emplace("lse", std::move(merged->lse));
  return outcome;
}

absl::StatusOr<Outcome> HandleLseConvert(const Case& tested,
                                         const Service& /*service*/) {
  const auto lse = tested.inputs.find("lse");
  if (lse == tested.inputs.end()) return Skip("a conversion without lse");
  Outcome outcome;
  outcome.got.emplace(
      "lse_base2",
      Map(lse->second, DType::kF64, [](double value) { return value / kLn2; }));
  return outcome;
}

}  // namespace attn
