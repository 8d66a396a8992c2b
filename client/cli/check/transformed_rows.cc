#include "client/cli/check/transformed_rows.h"

#include <string>
#include <utility>
#include <variant>

#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// Changes the rows of `side` only: the identity must stay what it is.
TransformSpec OnlyFor(TransformSpec transform, TransformTarget side) {
  std::visit(
      [side](auto& member) {
        member.target = side;
        if constexpr (requires { member.query_positions; }) {
          if (side == TransformTarget::kQuery) member.key_positions.reset();
          if (side == TransformTarget::kKey) member.query_positions.reset();
        }
        if constexpr (requires { member.query_weight; }) {
          if (side == TransformTarget::kQuery) member.key_weight.reset();
          if (side == TransformTarget::kKey) member.query_weight.reset();
        }
      },
      transform);
  return transform;
}

// [B, H, D, D]
HostTensor Identities(const Shape& rows) {
  const int64_t width = rows[3];
  HostTensor identity(DType::kF64, Shape{rows[0], rows[1], width, width});
  for (int64_t i = 0; i < identity.element_count(); i += width) {
    identity.Set(i + i / width % width, 1);
  }
  return identity;
}

}  // namespace

absl::StatusOr<HostTensor> TransformedRows(
    const HostTensor& rows, TransformTarget side,
    const std::vector<TransformSpec>& transforms,
    const std::vector<HostTensor>& inputs, const Service& service) {
  const Shape& shape = rows.shape();
  const bool as_query = side == TransformTarget::kQuery;
  ServiceCall call;
  call.spec.score = DotScore{.scale = 1, .learned_scale = std::nullopt};
  for (const TransformSpec& transform : transforms) {
    call.spec.transforms.push_back(OnlyFor(transform, side));
  }
  for (const HostTensor& input : inputs) {
    call.inputs.push_back(HostTensor::Copy(input.view()));
  }
  HostTensor own = HostTensor::Copy(rows.view());
  HostTensor other = Identities(shape);
  const int64_t keys = as_query ? shape[3] : shape[2];
  call.q = as_query ? std::move(own) : std::move(other);
  call.k = as_query ? std::move(other) : std::move(own);
  call.v = HostTensor(DType::kF64, Shape{shape[0], shape[1], keys, 1});
  auto outputs = service.Attend(call, {"logits"});
  if (!outputs.ok()) return outputs.status();
  HostTensor& logits = outputs->at("logits");
  return as_query ? std::move(logits) : Transposed(logits);
}

}  // namespace attn
