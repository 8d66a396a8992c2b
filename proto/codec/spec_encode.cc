#include <variant>

#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

void EncodeMember(const DotScore& score, v1::Score& message) {
  v1::DotScore& dot = *message.mutable_dot();
  if (score.scale.has_value()) dot.set_scale(*score.scale);
}

void EncodeMember(const DenseBias& bias, v1::Bias& message) {
  message.mutable_dense()->mutable_tensor()->set_input(bias.input);
}

void EncodeMember(const AlibiBias& bias, v1::Bias& message) {
  message.mutable_alibi()->mutable_slopes()->Add(bias.slopes.begin(),
                                                 bias.slopes.end());
}

void EncodeMember(const CausalMask& mask, v1::Mask& message) {
  message.mutable_causal()->set_alignment(
      static_cast<v1::Alignment>(mask.alignment));
}

void EncodeMember(const WindowMask& mask, v1::Mask& message) {
  v1::WindowMask& window = *message.mutable_window();
  if (mask.left.has_value()) window.set_left(*mask.left);
  if (mask.right.has_value()) window.set_right(*mask.right);
  window.set_alignment(static_cast<v1::Alignment>(mask.alignment));
}

void EncodeMember(const DenseMask& mask, v1::Mask& message) {
  message.mutable_dense()->mutable_tensor()->set_input(mask.input);
}

void EncodeMember(const SoftmaxNormalizer&, v1::Normalizer& message) {
  message.mutable_softmax();
}

template <typename Spec, typename Message>
void EncodeStage(const Spec& stage, Message* message) {
  std::visit([message](const auto& member) { EncodeMember(member, *message); },
             stage);
}

}  // namespace

v1::AttentionSpec EncodeSpec(const AttentionSpec& spec) {
  v1::AttentionSpec message;
  EncodeStage(spec.score, message.mutable_score());
  if (spec.softcap.has_value()) message.set_softcap(*spec.softcap);
  for (const BiasSpec& bias : spec.biases) {
    EncodeStage(bias, message.add_biases());
  }
  for (const MaskSpec& mask : spec.masks) {
    EncodeStage(mask, message.add_masks());
  }
  message.mutable_temperatures()->Add(spec.temperatures.begin(),
                                      spec.temperatures.end());
  EncodeStage(spec.normalizer, message.mutable_normalizer());
  return message;
}

v1::DataType EncodeDType(DType dtype) {
  return static_cast<v1::DataType>(dtype);
}

}  // namespace attn
