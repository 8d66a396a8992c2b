// Transforms of q and k, and sparsifiers.
#include "proto/codec/decode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

using Result = absl::StatusOr<TransformSpec>;
using SparsifierResult = absl::StatusOr<SparsifierSpec>;

TransformTarget ReadTarget(v1::TransformTarget value, MemberReader& reader) {
  return reader.Enum<TransformTarget>(value, v1::TransformTarget_descriptor(),
                                      "target", TransformTarget::kBoth);
}

Result DecodeRotary(const v1::Transform& message, const std::string& field) {
  const v1::RotaryTransform& rotary = message.rotary();
  MemberReader reader(field + ".rotary");
  RotaryTransform transform;
  transform.layout = reader.Enum<RotaryLayout>(
      rotary.layout(), v1::RotaryLayout_descriptor(), "layout");
  transform.target = ReadTarget(rotary.target(), reader);
  if (rotary.has_base()) transform.base = rotary.base();
  transform.rotary_dim =
      Optional(rotary.has_rotary_dim(), int64_t{rotary.rotary_dim()});
  transform.query_offset = rotary.query_offset();
  transform.key_offset = rotary.key_offset();
  if (rotary.has_position_scale()) {
    transform.position_scale = rotary.position_scale();
  }
  transform.query_positions =
      reader.OptionalRef(rotary.has_query_positions(), rotary.query_positions(),
                         "query_positions");
  transform.key_positions = reader.OptionalRef(
      rotary.has_key_positions(), rotary.key_positions(), "key_positions");
  transform.cos = reader.OptionalRef(rotary.has_cos(), rotary.cos(), "cos");
  transform.sin = reader.OptionalRef(rotary.has_sin(), rotary.sin(), "sin");
  return reader.Done<TransformSpec>(transform);
}

Result DecodeNorm(const v1::Transform& message, const std::string& field) {
  const v1::NormTransform& norm = message.norm();
  MemberReader reader(field + ".norm");
  NormTransform transform;
  transform.kind =
      reader.Enum<NormKind>(norm.kind(), v1::NormKind_descriptor(), "kind");
  transform.target = ReadTarget(norm.target(), reader);
  if (norm.has_eps()) transform.eps = norm.eps();
  transform.query_weight = reader.OptionalRef(
      norm.has_query_weight(), norm.query_weight(), "query_weight");
  transform.key_weight = reader.OptionalRef(norm.has_key_weight(),
                                            norm.key_weight(), "key_weight");
  return reader.Done<TransformSpec>(transform);
}

constexpr MemberRow<TransformSpec, v1::Transform> kTransforms[] = {
    {v1::Transform::kRotary, DecodeRotary},
    {v1::Transform::kNorm, DecodeNorm},
};

SparsifierResult DecodeTopK(const v1::Sparsifier& message,
                            const std::string& field) {
  MemberReader reader(field + ".top_k");
  TopKSparsifier top_k;
  top_k.k = message.top_k().k();
  top_k.ties =
      reader.Enum<TieRule>(message.top_k().ties(), v1::TieRule_descriptor(),
                           "ties", TieRule::kLowestIndex);
  return reader.Done<SparsifierSpec>(top_k);
}

SparsifierResult DecodeThreshold(const v1::Sparsifier& message,
                                 const std::string& /*field*/) {
  const v1::ThresholdSparsifier& threshold = message.threshold();
  return ThresholdSparsifier{
      Optional(threshold.has_min_logit(), threshold.min_logit()),
      Optional(threshold.has_below_max(), threshold.below_max())};
}

SparsifierResult DecodeTopP(const v1::Sparsifier& message,
                            const std::string& /*field*/) {
  return TopPSparsifier{message.top_p().p()};
}

constexpr MemberRow<SparsifierSpec, v1::Sparsifier> kSparsifiers[] = {
    {v1::Sparsifier::kTopK, DecodeTopK},
    {v1::Sparsifier::kThreshold, DecodeThreshold},
    {v1::Sparsifier::kTopP, DecodeTopP},
};

}  // namespace

Result DecodeTransform(const v1::Transform& message, const std::string& field) {
  return DecodeMember(kTransforms, message, field);
}

SparsifierResult DecodeSparsifier(const v1::Sparsifier& message,
                                  const std::string& field) {
  return DecodeMember(kSparsifiers, message, field);
}

}  // namespace attn
