#include "proto/codec/decode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

using Result = absl::StatusOr<NormalizerSpec>;

Divisor ReadDivisor(v1::Divisor value, MemberReader& reader) {
  return reader.Enum<Divisor>(value, v1::Divisor_descriptor(), "divisor",
                              Divisor::kOne);
}

Result DecodeSoftmax(const v1::Normalizer& message, const std::string& field) {
  const v1::SoftmaxNormalizer& softmax = message.softmax();
  MemberReader reader(field + ".softmax");
  return reader.Done<NormalizerSpec>(SoftmaxNormalizer{
      reader.OptionalRef(softmax.has_sink(), softmax.sink(), "sink")});
}

Result DecodeSoftmaxPlus(const v1::Normalizer& message,
                         const std::string& /*field*/) {
  SoftmaxPlusNormalizer normalizer;
  if (message.softmax_plus().has_n()) normalizer.n = message.softmax_plus().n();
  return normalizer;
}

Result DecodeSparsemax(const v1::Normalizer& /*message*/,
                       const std::string& /*field*/) {
  return SparsemaxNormalizer{};
}

Result DecodeEntmax(const v1::Normalizer& message, const std::string& field) {
  const v1::EntmaxNormalizer& entmax = message.entmax();
  MemberReader reader(field + ".entmax");
  EntmaxNormalizer normalizer;
  normalizer.alpha = Optional(entmax.has_alpha(), entmax.alpha());
  normalizer.alphas =
      reader.OptionalRef(entmax.has_alphas(), entmax.alphas(), "alphas");
  return reader.Done<NormalizerSpec>(normalizer);
}

Result DecodeSigmoid(const v1::Normalizer& message, const std::string& field) {
  MemberReader reader(field + ".sigmoid");
  SigmoidNormalizer normalizer;
  normalizer.bias = message.sigmoid().bias();
  normalizer.divisor = ReadDivisor(message.sigmoid().divisor(), reader);
  return reader.Done<NormalizerSpec>(normalizer);
}

Result DecodeRelu(const v1::Normalizer& message, const std::string& field) {
  MemberReader reader(field + ".relu");
  ReluNormalizer normalizer;
  if (message.relu().has_power()) normalizer.power = message.relu().power();
  normalizer.divisor = ReadDivisor(message.relu().divisor(), reader);
  return reader.Done<NormalizerSpec>(normalizer);
}

Result DecodeDivisive(const v1::Normalizer& message,
                      const std::string& /*field*/) {
  return DivisiveNormalizer{message.divisive().eps()};
}

Result DecodeHard(const v1::Normalizer& /*message*/,
                  const std::string& /*field*/) {
  return HardNormalizer{};
}

Result DecodeLocal(const v1::Normalizer& message, const std::string& field) {
  const v1::LocalNormalizer& local = message.local();
  MemberReader reader(field + ".local");
  LocalNormalizer normalizer;
  normalizer.weight = reader.Ref(local.has_weight(), local.weight(), "weight");
  normalizer.v = reader.Ref(local.has_v(), local.v(), "v");
  normalizer.radius = local.radius();
  return reader.Done<NormalizerSpec>(normalizer);
}

Result DecodeIdentity(const v1::Normalizer& /*message*/,
                      const std::string& /*field*/) {
  return IdentityNormalizer{};
}

Result DecodeLinear(const v1::Normalizer& message, const std::string& field) {
  const v1::LinearNormalizer& linear = message.linear();
  MemberReader reader(field + ".linear");
  LinearNormalizer normalizer;
  normalizer.feature_map = reader.Enum<FeatureMap>(
      linear.feature_map(), v1::FeatureMap_descriptor(), "feature_map");
  normalizer.update_rule =
      reader.Enum<UpdateRule>(linear.update_rule(), v1::UpdateRule_descriptor(),
                              "update_rule", UpdateRule::kLinear);
  normalizer.bidirectional = linear.bidirectional();
  normalizer.normalize = linear.normalize();
  if (linear.has_eps()) normalizer.eps = linear.eps();
  normalizer.decay =
      reader.OptionalRef(linear.has_decay(), linear.decay(), "decay");
  normalizer.beta =
      reader.OptionalRef(linear.has_beta(), linear.beta(), "beta");
  normalizer.state =
      reader.OptionalRef(linear.has_state(), linear.state(), "state");
  return reader.Done<NormalizerSpec>(normalizer);
}

constexpr MemberRow<NormalizerSpec, v1::Normalizer> kNormalizers[] = {
    {v1::Normalizer::kSoftmax, DecodeSoftmax},
    {v1::Normalizer::kSoftmaxPlus, DecodeSoftmaxPlus},
    {v1::Normalizer::kSparsemax, DecodeSparsemax},
    {v1::Normalizer::kEntmax, DecodeEntmax},
    {v1::Normalizer::kSigmoid, DecodeSigmoid},
    {v1::Normalizer::kRelu, DecodeRelu},
    {v1::Normalizer::kDivisive, DecodeDivisive},
    {v1::Normalizer::kHard, DecodeHard},
    {v1::Normalizer::kLocal, DecodeLocal},
    {v1::Normalizer::kIdentity, DecodeIdentity},
    {v1::Normalizer::kLinear, DecodeLinear},
};

}  // namespace

Result DecodeNormalizer(const v1::Normalizer& message,
                        const std::string& field) {
  return DecodeMember(kNormalizers, message, field);
}

}  // namespace attn
