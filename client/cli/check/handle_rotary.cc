// Rotary positions: the rows that the service makes of q and k.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"
#include "client/cli/check/transformed_rows.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

// "q_half", "k_interleaved".
struct RopeOutput {
  const char* name;
  const char* input;
  TransformTarget side;
  RotaryLayout layout;
};

constexpr RopeOutput kRopeOutputs[] = {
    {"q_half", "q", TransformTarget::kQuery, RotaryLayout::kHalfSplit},
    {"k_half", "k", TransformTarget::kKey, RotaryLayout::kHalfSplit},
    {"q_interleaved", "q", TransformTarget::kQuery, RotaryLayout::kInterleaved},
    {"k_interleaved", "k", TransformTarget::kKey, RotaryLayout::kInterleaved},
};

absl::StatusOr<HostTensor> Positions(const json& params) {
  const auto integers = Integers(params.value("positions", json()));
  if (!integers.ok()) return integers.status();
  return HostTensor::From<int64_t>(
      Shape{static_cast<int64_t>(integers->size())}, *integers);
}

}  // namespace

absl::StatusOr<Outcome> HandleRope(const Case& tested, const Service& service) {
  std::vector<HostTensor> inputs;
  auto positions = Positions(tested.params);
  if (!positions.ok()) return positions.status();
  inputs.push_back(*std::move(positions));
  RotaryTransform rotary;
  const auto base = NumberFromJson(tested.params.value("base", json()));
  if (!base.ok()) return base.status();
  rotary.base = *base;
  rotary.rotary_dim = tested.params.value("rotary_dim", int64_t{0});
  rotary.query_positions = 0;
  rotary.key_positions = 0;
  Outcome outcome;
  for (const RopeOutput& row : kRopeOutputs) {
    const HostTensor* rows = tested.Input(row.input);
    if (rows == nullptr) return Skip("rotary positions without q and k");
    rotary.layout = row.layout;
    auto turned = TransformedRows(*rows, row.side, {rotary}, inputs, service);
    if (!turned.ok()) return turned.status();
    outcome.got[row.name] = *std::move(turned);
  }
  return outcome;
}

absl::StatusOr<Outcome> HandleOnnxRotary(const Case& tested,
                                         const Service& service) {
  const json attributes = tested.params.value("attributes", json::object());
  const HostTensor* x = tested.Input("x");
  const HostTensor* cos = tested.Input("cos_cache");
  const HostTensor* sin = tested.Input("sin_cache");
  if (x == nullptr || cos == nullptr || sin == nullptr) {
    return Skip("a rotation without x, cos_cache and sin_cache");
  }
  const bool packed = x->shape().rank() == 3;
  const auto rows =
      packed ? SplitHeads(*x, attributes.value("num_heads", int64_t{0}))
             : HostTensor::Copy(x->view());
  if (!rows.ok()) return rows.status();
  RotaryTransform rotary;
  rotary.layout = attributes.value("interleaved", int64_t{0}) != 0
                      ? RotaryLayout::kInterleaved
                      : RotaryLayout::kHalfSplit;
  const int64_t turning = attributes.value("rotary_embedding_dim", int64_t{0});
  if (turning != 0) rotary.rotary_dim = turning;
  std::vector<HostTensor> inputs;
  rotary.cos = 0;
  rotary.sin = 1;
  inputs.push_back(HostTensor::Copy(cos->view()));
  inputs.push_back(HostTensor::Copy(sin->view()));
  if (const HostTensor* ids = tested.Input("position_ids"); ids != nullptr) {
    rotary.query_positions = 2;
    inputs.push_back(HostTensor::Copy(ids->view()));
  }
  auto turned = TransformedRows(*rows, TransformTarget::kQuery, {rotary},
                                inputs, service);
  if (!turned.ok()) return turned.status();
  Outcome outcome;
  outcome.got["y"] = packed ? JoinHeads(*turned) : *std::move(turned);
  return outcome;
}

}  // namespace attn
