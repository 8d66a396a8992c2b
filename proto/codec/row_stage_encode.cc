// Transforms of q and k, and sparsifiers.
#include "proto/codec/encode_member.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

void Encode(const RotaryTransform& transform, v1::Transform& message) {
  v1::RotaryTransform& rotary = *message.mutable_rotary();
  rotary.set_layout(static_cast<v1::RotaryLayout>(transform.layout));
  rotary.set_target(static_cast<v1::TransformTarget>(transform.target));
  rotary.set_base(transform.base);
  if (transform.rotary_dim) rotary.set_rotary_dim(*transform.rotary_dim);
  rotary.set_query_offset(transform.query_offset);
  rotary.set_key_offset(transform.key_offset);
  rotary.set_position_scale(transform.position_scale);
  EncodeRef(transform.query_positions,
            [&] { return rotary.mutable_query_positions(); });
  EncodeRef(transform.key_positions,
            [&] { return rotary.mutable_key_positions(); });
  EncodeRef(transform.cos, [&] { return rotary.mutable_cos(); });
  EncodeRef(transform.sin, [&] { return rotary.mutable_sin(); });
}

void Encode(const NormTransform& transform, v1::Transform& message) {
  v1::NormTransform& norm = *message.mutable_norm();
  norm.set_kind(static_cast<v1::NormKind>(transform.kind));
  norm.set_target(static_cast<v1::TransformTarget>(transform.target));
  norm.set_eps(transform.eps);
  EncodeRef(transform.query_weight,
            [&] { return norm.mutable_query_weight(); });
  EncodeRef(transform.key_weight, [&] { return norm.mutable_key_weight(); });
}

void Encode(const TopKSparsifier& sparsifier, v1::Sparsifier& message) {
  message.mutable_top_k()->set_k(sparsifier.k);
  message.mutable_top_k()->set_ties(static_cast<v1::TieRule>(sparsifier.ties));
}

void Encode(const ThresholdSparsifier& sparsifier, v1::Sparsifier& message) {
  v1::ThresholdSparsifier& threshold = *message.mutable_threshold();
  if (sparsifier.min_logit) threshold.set_min_logit(*sparsifier.min_logit);
  if (sparsifier.below_max) threshold.set_below_max(*sparsifier.below_max);
}

void Encode(const TopPSparsifier& sparsifier, v1::Sparsifier& message) {
  message.mutable_top_p()->set_p(sparsifier.p);
}

}  // namespace

v1::Transform EncodeTransform(const TransformSpec& spec) {
  v1::Transform message;
  std::visit([&message](const auto& member) { Encode(member, message); }, spec);
  return message;
}

v1::Sparsifier EncodeSparsifier(const SparsifierSpec& spec) {
  v1::Sparsifier message;
  std::visit([&message](const auto& member) { Encode(member, message); }, spec);
  return message;
}

}  // namespace attn
