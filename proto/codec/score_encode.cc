#include "proto/codec/encode_member.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

void EncodeLearned(const LearnedScale& scale, v1::LearnedScale& message) {
  message.mutable_log_scale()->set_input(scale.log_scale);
  if (scale.max_log_scale) message.set_max_log_scale(*scale.max_log_scale);
}

void Encode(const DotScore& score, v1::Score& message) {
  v1::DotScore& dot = *message.mutable_dot();
  if (score.scale) dot.set_scale(*score.scale);
  if (score.learned_scale) {
    EncodeLearned(*score.learned_scale, *dot.mutable_learned_scale());
  }
}

void Encode(const BilinearScore& score, v1::Score& message) {
  v1::BilinearScore& bilinear = *message.mutable_bilinear();
  bilinear.mutable_weight()->set_input(score.weight);
  bilinear.set_bias(score.bias);
  if (score.scale) bilinear.set_scale(*score.scale);
}

void Encode(const AdditiveScore& score, v1::Score& message) {
  v1::AdditiveScore& additive = *message.mutable_additive();
  EncodeRef(score.query_weight,
            [&] { return additive.mutable_query_weight(); });
  EncodeRef(score.key_weight, [&] { return additive.mutable_key_weight(); });
  EncodeRef(score.query_bias, [&] { return additive.mutable_query_bias(); });
  additive.mutable_v()->set_input(score.v);
  additive.set_activation(static_cast<v1::Activation>(score.activation));
  additive.set_bias(score.bias);
}

void Encode(const ConcatScore& score, v1::Score& message) {
  v1::ConcatScore& concat = *message.mutable_concat();
  concat.mutable_weight()->set_input(score.weight);
  concat.mutable_v()->set_input(score.v);
  concat.set_activation(static_cast<v1::Activation>(score.activation));
}

void Encode(const TrilinearScore& score, v1::Score& message) {
  message.mutable_trilinear()->mutable_weight()->set_input(score.weight);
  message.mutable_trilinear()->set_bias(score.bias);
}

void Encode(const CosineScore& score, v1::Score& message) {
  v1::CosineScore& cosine = *message.mutable_cosine();
  if (score.scale) cosine.set_scale(*score.scale);
  if (score.learned_scale) {
    EncodeLearned(*score.learned_scale, *cosine.mutable_learned_scale());
  }
  cosine.set_eps(score.eps);
}

void Encode(const DistanceScore& score, v1::Score& message) {
  v1::DistanceScore& distance = *message.mutable_distance();
  distance.set_distance(static_cast<v1::Distance>(score.distance));
  if (score.scale) distance.set_scale(*score.scale);
}

}  // namespace

v1::Score EncodeScore(const ScoreSpec& spec) {
  v1::Score message;
  std::visit([&message](const auto& member) { Encode(member, message); }, spec);
  return message;
}

}  // namespace attn
