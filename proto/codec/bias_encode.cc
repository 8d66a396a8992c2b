#include "proto/codec/encode_member.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

void Encode(const DenseBias& bias, v1::Bias& message) {
  message.mutable_dense()->mutable_tensor()->set_input(bias.input);
}

void Encode(const AlibiBias& bias, v1::Bias& message) {
  message.mutable_alibi()->mutable_slopes()->Add(bias.slopes.begin(),
                                                 bias.slopes.end());
}

void Encode(const RelativeTableBias& bias, v1::Bias& message) {
  message.mutable_relative_table()->mutable_table()->set_input(bias.table);
}

void Encode(const T5Bias& bias, v1::Bias& message) {
  v1::T5Bias& t5 = *message.mutable_t5();
  t5.mutable_table()->set_input(bias.table);
  t5.set_bidirectional(bias.bidirectional);
  t5.set_max_distance(bias.max_distance);
}

void Encode(const ContinuousPositionBias& bias, v1::Bias& message) {
  v1::ContinuousPositionBias& cpb = *message.mutable_continuous_position();
  cpb.set_height(bias.height);
  cpb.set_width(bias.width);
  cpb.mutable_hidden_weight()->set_input(bias.hidden_weight);
  cpb.mutable_hidden_bias()->set_input(bias.hidden_bias);
  cpb.mutable_output_weight()->set_input(bias.output_weight);
}

void Encode(const ConstantBias& bias, v1::Bias& message) {
  message.mutable_constant()->mutable_values()->set_input(bias.values);
}

}  // namespace

v1::Bias EncodeBias(const BiasSpec& spec) {
  v1::Bias message;
  std::visit([&message](const auto& member) { Encode(member, message); }, spec);
  return message;
}

}  // namespace attn
