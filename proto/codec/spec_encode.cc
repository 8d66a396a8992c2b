#include "proto/codec/encode_member.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

void EncodeDropout(const DropoutSpec& spec, v1::Dropout& message) {
  message.set_p(spec.p);
  message.set_seed(spec.seed);
  message.set_renormalize(spec.renormalize);
  EncodeRef(spec.keep, [&] { return message.mutable_keep(); });
}

void EncodeKvQuantization(const KvQuantization& spec,
                          v1::KvQuantization& message) {
  message.set_granularity(
      static_cast<v1::QuantizationGranularity>(spec.granularity));
  message.mutable_key_scale()->set_input(spec.key_scale);
  message.mutable_value_scale()->set_input(spec.value_scale);
}

// What acts on scores: program, masks, temperatures, sparsifiers.
void EncodeScoreStages(const AttentionSpec& spec, v1::AttentionSpec& message) {
  for (const BiasSpec& bias : spec.biases) {
    *message.add_biases() = EncodeBias(bias);
  }
  if (spec.score_program) {
    *message.mutable_score_program() = EncodeProgram(*spec.score_program);
  }
  for (const MaskSpec& mask : spec.masks) {
    *message.add_masks() = EncodeMask(mask);
  }
  message.mutable_temperatures()->Add(spec.temperatures.begin(),
                                      spec.temperatures.end());
  for (const SparsifierSpec& sparsifier : spec.sparsifiers) {
    *message.add_sparsifiers() = EncodeSparsifier(sparsifier);
  }
}

}  // namespace

v1::AttentionSpec EncodeSpec(const AttentionSpec& spec) {
  v1::AttentionSpec message;
  for (const TransformSpec& transform : spec.transforms) {
    *message.add_transforms() = EncodeTransform(transform);
  }
  *message.mutable_score() = EncodeScore(spec.score);
  if (spec.softcap.has_value()) message.set_softcap(*spec.softcap);
  EncodeScoreStages(spec, message);
  *message.mutable_normalizer() = EncodeNormalizer(spec.normalizer);
  if (spec.weight_program) {
    *message.mutable_weight_program() = EncodeProgram(*spec.weight_program);
  }
  if (spec.dropout) EncodeDropout(*spec.dropout, *message.mutable_dropout());
  EncodeRef(spec.head_gate, [&] { return message.mutable_head_gate(); });
  if (spec.kv_quantization) {
    EncodeKvQuantization(*spec.kv_quantization,
                         *message.mutable_kv_quantization());
  }
  if (spec.projections) {
    *message.mutable_projections() = EncodeProjections(*spec.projections);
  }
  return message;
}

v1::DataType EncodeDType(DType dtype) {
  return static_cast<v1::DataType>(dtype);
}

}  // namespace attn
