#include "proto/codec/decode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

using Result = absl::StatusOr<ScoreSpec>;

std::optional<LearnedScale> ReadLearnedScale(bool present,
                                             const v1::LearnedScale& message,
                                             MemberReader& reader) {
  if (!present) return std::nullopt;
  MemberReader inner(reader.field() + ".learned_scale");
  LearnedScale scale;
  scale.log_scale =
      inner.Ref(message.has_log_scale(), message.log_scale(), "log_scale");
  scale.max_log_scale =
      Optional(message.has_max_log_scale(), message.max_log_scale());
  reader.Update(inner.Done(scale).status());
  return scale;
}

Activation ReadActivation(v1::Activation value, MemberReader& reader) {
  return reader.Enum<Activation>(value, v1::Activation_descriptor(),
                                 "activation", Activation::kTanh);
}

Result DecodeDot(const v1::Score& message, const std::string& field) {
  const v1::DotScore& dot = message.dot();
  MemberReader reader(field + ".dot");
  DotScore score;
  score.scale = Optional(dot.has_scale(), dot.scale());
  score.learned_scale =
      ReadLearnedScale(dot.has_learned_scale(), dot.learned_scale(), reader);
  return reader.Done<ScoreSpec>(score);
}

Result DecodeBilinear(const v1::Score& message, const std::string& field) {
  const v1::BilinearScore& bilinear = message.bilinear();
  MemberReader reader(field + ".bilinear");
  BilinearScore score;
  score.weight = reader.Ref(bilinear.has_weight(), bilinear.weight(), "weight");
  score.bias = bilinear.bias();
  score.scale = Optional(bilinear.has_scale(), bilinear.scale());
  return reader.Done<ScoreSpec>(score);
}

Result DecodeAdditive(const v1::Score& message, const std::string& field) {
  const v1::AdditiveScore& additive = message.additive();
  MemberReader reader(field + ".additive");
  AdditiveScore score;
  score.query_weight = reader.OptionalRef(
      additive.has_query_weight(), additive.query_weight(), "query_weight");
  score.key_weight = reader.OptionalRef(additive.has_key_weight(),
                                        additive.key_weight(), "key_weight");
  score.query_bias = reader.OptionalRef(additive.has_query_bias(),
                                        additive.query_bias(), "query_bias");
  score.v = reader.Ref(additive.has_v(), additive.v(), "v");
  score.activation = ReadActivation(additive.activation(), reader);
  score.bias = additive.bias();
  return reader.Done<ScoreSpec>(score);
}

Result DecodeConcat(const v1::Score& message, const std::string& field) {
  const v1::ConcatScore& concat = message.concat();
  MemberReader reader(field + ".concat");
  ConcatScore score;
  score.weight = reader.Ref(concat.has_weight(), concat.weight(), "weight");
  score.v = reader.Ref(concat.has_v(), concat.v(), "v");
  score.activation = ReadActivation(concat.activation(), reader);
  return reader.Done<ScoreSpec>(score);
}

Result DecodeTrilinear(const v1::Score& message, const std::string& field) {
  const v1::TrilinearScore& trilinear = message.trilinear();
  MemberReader reader(field + ".trilinear");
  TrilinearScore score;
  score.weight =
      reader.Ref(trilinear.has_weight(), trilinear.weight(), "weight");
  score.bias = trilinear.bias();
  return reader.Done<ScoreSpec>(score);
}

Result DecodeCosine(const v1::Score& message, const std::string& field) {
  const v1::CosineScore& cosine = message.cosine();
  MemberReader reader(field + ".cosine");
  CosineScore score;
  score.scale = Optional(cosine.has_scale(), cosine.scale());
  score.learned_scale = ReadLearnedScale(cosine.has_learned_scale(),
                                         cosine.learned_scale(), reader);
  if (cosine.has_eps()) score.eps = cosine.eps();
  return reader.Done<ScoreSpec>(score);
}

Result DecodeDistance(const v1::Score& message, const std::string& field) {
  const v1::DistanceScore& distance = message.distance();
  MemberReader reader(field + ".distance");
  DistanceScore score;
  score.distance = reader.Enum<Distance>(distance.distance(),
                                         v1::Distance_descriptor(), "distance");
  score.scale = Optional(distance.has_scale(), distance.scale());
  return reader.Done<ScoreSpec>(score);
}

constexpr MemberRow<ScoreSpec, v1::Score> kScores[] = {
    {v1::Score::kDot, DecodeDot},
    {v1::Score::kBilinear, DecodeBilinear},
    {v1::Score::kAdditive, DecodeAdditive},
    {v1::Score::kConcat, DecodeConcat},
    {v1::Score::kTrilinear, DecodeTrilinear},
    {v1::Score::kCosine, DecodeCosine},
    {v1::Score::kDistance, DecodeDistance},
};

}  // namespace

Result DecodeScore(const v1::Score& message, const std::string& field) {
  return DecodeMember(kScores, message, field);
}

}  // namespace attn
