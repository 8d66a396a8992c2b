#include "proto/codec/encode_member.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

v1::Divisor OnWire(Divisor divisor) {
  return static_cast<v1::Divisor>(divisor);
}

void Encode(const SoftmaxNormalizer& normalizer, v1::Normalizer& message) {
  v1::SoftmaxNormalizer& softmax = *message.mutable_softmax();
  EncodeRef(normalizer.sink, [&] { return softmax.mutable_sink(); });
}

void Encode(const SoftmaxPlusNormalizer& normalizer, v1::Normalizer& message) {
  message.mutable_softmax_plus()->set_n(normalizer.n);
}

void Encode(const SparsemaxNormalizer& /*normalizer*/,
            v1::Normalizer& message) {
  message.mutable_sparsemax();
}

void Encode(const EntmaxNormalizer& normalizer, v1::Normalizer& message) {
  v1::EntmaxNormalizer& entmax = *message.mutable_entmax();
  if (normalizer.alpha) entmax.set_alpha(*normalizer.alpha);
  EncodeRef(normalizer.alphas, [&] { return entmax.mutable_alphas(); });
}

void Encode(const SigmoidNormalizer& normalizer, v1::Normalizer& message) {
  message.mutable_sigmoid()->set_bias(normalizer.bias);
  message.mutable_sigmoid()->set_divisor(OnWire(normalizer.divisor));
}

void Encode(const ReluNormalizer& normalizer, v1::Normalizer& message) {
  message.mutable_relu()->set_power(normalizer.power);
  message.mutable_relu()->set_divisor(OnWire(normalizer.divisor));
}

void Encode(const DivisiveNormalizer& normalizer, v1::Normalizer& message) {
  message.mutable_divisive()->set_eps(normalizer.eps);
}

void Encode(const HardNormalizer& /*normalizer*/, v1::Normalizer& message) {
  message.mutable_hard();
}

void Encode(const LocalNormalizer& normalizer, v1::Normalizer& message) {
  v1::LocalNormalizer& local = *message.mutable_local();
  local.mutable_weight()->set_input(normalizer.weight);
  local.mutable_v()->set_input(normalizer.v);
  local.set_radius(normalizer.radius);
}

void Encode(const IdentityNormalizer& /*normalizer*/, v1::Normalizer& message) {
  message.mutable_identity();
}

void Encode(const LinearNormalizer& normalizer, v1::Normalizer& message) {
  v1::LinearNormalizer& linear = *message.mutable_linear();
  linear.set_feature_map(static_cast<v1::FeatureMap>(normalizer.feature_map));
  linear.set_update_rule(static_cast<v1::UpdateRule>(normalizer.update_rule));
  linear.set_bidirectional(normalizer.bidirectional);
  linear.set_normalize(normalizer.normalize);
  linear.set_eps(normalizer.eps);
  EncodeRef(normalizer.decay, [&] { return linear.mutable_decay(); });
  EncodeRef(normalizer.beta, [&] { return linear.mutable_beta(); });
  EncodeRef(normalizer.state, [&] { return linear.mutable_state(); });
}

}  // namespace

v1::Normalizer EncodeNormalizer(const NormalizerSpec& spec) {
  v1::Normalizer message;
  std::visit([&message](const auto& member) { Encode(member, message); }, spec);
  return message;
}

}  // namespace attn
