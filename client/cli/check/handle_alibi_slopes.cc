// The published slopes, read off the logits that they make.
#include <utility>

#include "client/cli/check/handlers.h"

namespace attn {

// One query and two keys: the query stands at key 1, so the logit of key 0 is
// -slope * 1.
absl::StatusOr<Outcome> HandleAlibiSlopes(const Case& tested,
                                          const Service& service) {
  const auto heads = tested.params.value("num_heads", int64_t{0});
  if (heads <= 0) return Skip("slopes of no head");
  ServiceCall call;
  call.q = HostTensor(DType::kF32, {1, heads, 1, 1});
  call.k = HostTensor(DType::kF32, {1, heads, 2, 1});
  call.v = HostTensor(DType::kF32, {1, heads, 2, 1});
  call.spec.biases.emplace_back(AlibiBias{});
  const auto outputs = service.Attend(call, {"masked_logits"});
  if (!outputs.ok()) return outputs.status();
  const HostTensor& logits = outputs->at("masked_logits");
  HostTensor slopes(DType::kF64, {heads});
  for (int64_t h = 0; h < heads; ++h) slopes.Set(h, -logits.At(2 * h));
  Outcome outcome;
  outcome.got.emplace("slopes", std::move(slopes));
  return outcome;
}

}  // namespace attn
