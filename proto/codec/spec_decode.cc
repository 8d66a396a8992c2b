#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

// A stage that holds a list of members.
template <typename Spec, typename Message>
absl::Status DecodeList(
    absl::StatusOr<Spec> (*decode)(const Message&, const std::string&),
    const google::protobuf::RepeatedPtrField<Message>& messages,
    const std::string& field, std::vector<Spec>& members) {
  for (int i = 0; i < messages.size(); ++i) {
    auto member = decode(messages[i], absl::StrCat(field, "[", i, "]"));
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
  }
  return absl::OkStatus();
}

// A stage that holds one member; left as it is if `present` is false.
template <typename Spec, typename Message, typename Stage>
absl::Status DecodeOne(absl::StatusOr<Spec> (*decode)(const Message&,
                                                      const std::string&),
                       bool present, const Message& message,
                       const std::string& field, Stage& stage) {
  if (!present) return absl::OkStatus();
  auto member = decode(message, field);
  if (!member.ok()) return member.status();
  stage = *std::move(member);
  return absl::OkStatus();
}

absl::StatusOr<DropoutSpec> DecodeDropout(const v1::Dropout& message,
                                          const std::string& field) {
  MemberReader reader(field);
  DropoutSpec dropout;
  dropout.p = message.p();
  dropout.seed = message.seed();
  dropout.renormalize = message.renormalize();
  dropout.keep = reader.OptionalRef(message.has_keep(), message.keep(), "keep");
  return reader.Done(dropout);
}

absl::StatusOr<KvQuantization> DecodeKvQuantization(
    const v1::KvQuantization& message, const std::string& field) {
  MemberReader reader(field);
  KvQuantization quantization;
  quantization.granularity = reader.Enum<QuantizationGranularity>(
      message.granularity(), v1::QuantizationGranularity_descriptor(),
      "granularity");
  quantization.key_scale =
      reader.Ref(message.has_key_scale(), message.key_scale(), "key_scale");
  quantization.value_scale = reader.Ref(message.has_value_scale(),
                                        message.value_scale(), "value_scale");
  return reader.Done(quantization);
}

// What comes before the normalizer.
absl::Status DecodeScoreStages(const v1::AttentionSpec& message,
                               AttentionSpec& spec) {
  absl::Status status = DecodeList(DecodeTransform, message.transforms(),
                                   "spec.transforms", spec.transforms);
  status.Update(DecodeOne(DecodeScore, message.has_score(), message.score(),
                          "spec.score", spec.score));
  status.Update(
      DecodeList(DecodeBias, message.biases(), "spec.biases", spec.biases));
  status.Update(DecodeOne(DecodeProgram, message.has_score_program(),
                          message.score_program(), "spec.score_program",
                          spec.score_program));
  status.Update(
      DecodeList(DecodeMask, message.masks(), "spec.masks", spec.masks));
  status.Update(DecodeList(DecodeSparsifier, message.sparsifiers(),
                           "spec.sparsifiers", spec.sparsifiers));
  return status;
}

// The normalizer and what comes after.
absl::Status DecodeWeightStages(const v1::AttentionSpec& message,
                                AttentionSpec& spec) {
  absl::Status status =
      DecodeOne(DecodeNormalizer, message.has_normalizer(),
                message.normalizer(), "spec.normalizer", spec.normalizer);
  status.Update(DecodeOne(DecodeProgram, message.has_weight_program(),
                          message.weight_program(), "spec.weight_program",
                          spec.weight_program));
  status.Update(DecodeOne(DecodeDropout, message.has_dropout(),
                          message.dropout(), "spec.dropout", spec.dropout));
  MemberReader reader("spec");
  spec.head_gate = reader.OptionalRef(message.has_head_gate(),
                                      message.head_gate(), "head_gate");
  status.Update(reader.Done(0).status());
  status.Update(DecodeOne(DecodeProjections, message.has_projections(),
                          message.projections(), "spec.projections",
                          spec.projections));
  return status;
}

}  // namespace

absl::StatusOr<AttentionSpec> DecodeSpec(const v1::AttentionSpec& message) {
  AttentionSpec spec;
  absl::Status status = DecodeScoreStages(message, spec);
  status.Update(DecodeWeightStages(message, spec));
  status.Update(DecodeOne(DecodeKvQuantization, message.has_kv_quantization(),
                          message.kv_quantization(), "spec.kv_quantization",
                          spec.kv_quantization));
  if (!status.ok()) return status;
  if (message.has_softcap()) spec.softcap = message.softcap();
  spec.temperatures.assign(message.temperatures().begin(),
                           message.temperatures().end());
  return spec;
}

absl::StatusOr<DType> DecodeDType(v1::DataType dtype, absl::string_view field) {
  if (dtype != v1::DATA_TYPE_UNSPECIFIED && v1::DataType_IsValid(dtype)) {
    return static_cast<DType>(dtype);
  }
  return EnumError(field, dtype, v1::DataType_descriptor(),
                   /*zero_is_legal=*/false);
}

}  // namespace attn
