#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

// How one member of a stage is read. Each stage has a table of these.
template <typename Spec, typename Message>
struct MemberRow {
  typename Message::KindCase kind;
  absl::StatusOr<Spec> (*decode)(const Message& message,
                                 const std::string& field);
};

template <typename Spec, typename Message, size_t size>
absl::StatusOr<Spec> DecodeMember(const MemberRow<Spec, Message> (&table)[size],
                                  const Message& message,
                                  const std::string& field) {
  for (const MemberRow<Spec, Message>& row : table) {
    if (row.kind == message.kind_case()) return row.decode(message, field);
  }
  return OneofError(field, message);
}

absl::StatusOr<uint32_t> DecodeRef(bool present, const v1::TensorRef& message,
                                   const std::string& field) {
  if (present && message.source_case() == v1::TensorRef::kInput) {
    return message.input();
  }
  return FieldError(field, "nothing", "the index of one of the inputs");
}

absl::StatusOr<Alignment> DecodeAlignment(v1::Alignment alignment,
                                          const std::string& field) {
  if (v1::Alignment_IsValid(alignment)) {
    return static_cast<Alignment>(alignment);
  }
  return EnumError(field, alignment, v1::Alignment_descriptor(),
                   /*zero_is_legal=*/true);
}

// ------------------------------------------------------------------ scores

absl::StatusOr<ScoreSpec> DecodeDot(const v1::Score& message,
                                    const std::string&) {
  DotScore score;
  if (message.dot().has_scale()) score.scale = message.dot().scale();
  return score;
}

constexpr MemberRow<ScoreSpec, v1::Score> kScores[] = {
    {v1::Score::kDot, DecodeDot},
};

// ------------------------------------------------------------------ biases

absl::StatusOr<BiasSpec> DecodeDenseBias(const v1::Bias& message,
                                         const std::string& field) {
  const v1::DenseBias& bias = message.dense();
  auto input = DecodeRef(bias.has_tensor(), bias.tensor(),
                         absl::StrCat(field, ".dense.tensor"));
  if (!input.ok()) return input.status();
  return DenseBias{.input = *input};
}

absl::StatusOr<BiasSpec> DecodeAlibi(const v1::Bias& message,
                                     const std::string&) {
  const auto& slopes = message.alibi().slopes();
  return AlibiBias{.slopes = {slopes.begin(), slopes.end()}};
}

constexpr MemberRow<BiasSpec, v1::Bias> kBiases[] = {
    {v1::Bias::kDense, DecodeDenseBias},
    {v1::Bias::kAlibi, DecodeAlibi},
};

// ------------------------------------------------------------------- masks

absl::StatusOr<MaskSpec> DecodeCausal(const v1::Mask& message,
                                      const std::string& field) {
  auto alignment = DecodeAlignment(message.causal().alignment(),
                                   absl::StrCat(field, ".causal.alignment"));
  if (!alignment.ok()) return alignment.status();
  return CausalMask{.alignment = *alignment};
}

absl::StatusOr<MaskSpec> DecodeWindow(const v1::Mask& message,
                                      const std::string& field) {
  auto alignment = DecodeAlignment(message.window().alignment(),
                                   absl::StrCat(field, ".window.alignment"));
  if (!alignment.ok()) return alignment.status();
  WindowMask mask;
  mask.alignment = *alignment;
  if (message.window().has_left()) mask.left = message.window().left();
  if (message.window().has_right()) mask.right = message.window().right();
  return mask;
}

absl::StatusOr<MaskSpec> DecodeDenseMask(const v1::Mask& message,
                                         const std::string& field) {
  const v1::DenseMask& mask = message.dense();
  auto input = DecodeRef(mask.has_tensor(), mask.tensor(),
                         absl::StrCat(field, ".dense.tensor"));
  if (!input.ok()) return input.status();
  return DenseMask{.input = *input};
}

constexpr MemberRow<MaskSpec, v1::Mask> kMasks[] = {
    {v1::Mask::kCausal, DecodeCausal},
    {v1::Mask::kWindow, DecodeWindow},
    {v1::Mask::kDense, DecodeDenseMask},
};

// ------------------------------------------------------------- normalizers

absl::StatusOr<NormalizerSpec> DecodeSoftmax(const v1::Normalizer&,
                                             const std::string&) {
  return SoftmaxNormalizer{};
}

constexpr MemberRow<NormalizerSpec, v1::Normalizer> kNormalizers[] = {
    {v1::Normalizer::kSoftmax, DecodeSoftmax},
};

// ------------------------------------------------------------------- stages

// The stages that hold a list of members.
template <typename Spec, typename Message, size_t size>
absl::Status DecodeList(
    const MemberRow<Spec, Message> (&table)[size],
    const google::protobuf::RepeatedPtrField<Message>& messages,
    const std::string& field, std::vector<Spec>& members) {
  for (int i = 0; i < messages.size(); ++i) {
    auto member =
        DecodeMember(table, messages[i], absl::StrCat(field, "[", i, "]"));
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
  }
  return absl::OkStatus();
}

// The stages that hold one member, `stage`'s default if `present` is false.
template <typename Spec, typename Message, size_t size>
absl::Status DecodeOne(const MemberRow<Spec, Message> (&table)[size],
                       bool present, const Message& message,
                       const std::string& field, Spec& stage) {
  if (!present) return absl::OkStatus();
  auto member = DecodeMember(table, message, field);
  if (!member.ok()) return member.status();
  stage = *std::move(member);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionSpec> DecodeSpec(const v1::AttentionSpec& message) {
  AttentionSpec spec;
  absl::Status status = DecodeOne(kScores, message.has_score(), message.score(),
                                  "spec.score", spec.score);
  status.Update(
      DecodeList(kBiases, message.biases(), "spec.biases", spec.biases));
  status.Update(DecodeList(kMasks, message.masks(), "spec.masks", spec.masks));
  status.Update(DecodeOne(kNormalizers, message.has_normalizer(),
                          message.normalizer(), "spec.normalizer",
                          spec.normalizer));
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
