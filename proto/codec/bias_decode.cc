#include "proto/codec/decode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

using Result = absl::StatusOr<BiasSpec>;

Result DecodeDense(const v1::Bias& message, const std::string& field) {
  MemberReader reader(field + ".dense");
  const v1::DenseBias& dense = message.dense();
  return reader.Done<BiasSpec>(
      DenseBias{reader.Ref(dense.has_tensor(), dense.tensor(), "tensor")});
}

Result DecodeAlibi(const v1::Bias& message, const std::string& /*field*/) {
  const auto& slopes = message.alibi().slopes();
  return AlibiBias{.slopes = {slopes.begin(), slopes.end()}};
}

Result DecodeRelativeTable(const v1::Bias& message, const std::string& field) {
  MemberReader reader(field + ".relative_table");
  const v1::RelativeTableBias& table = message.relative_table();
  return reader.Done<BiasSpec>(
      RelativeTableBias{reader.Ref(table.has_table(), table.table(), "table")});
}

Result DecodeT5(const v1::Bias& message, const std::string& field) {
  MemberReader reader(field + ".t5");
  const v1::T5Bias& t5 = message.t5();
  T5Bias bias;
  bias.table = reader.Ref(t5.has_table(), t5.table(), "table");
  bias.bidirectional = t5.bidirectional();
  if (t5.has_max_distance()) bias.max_distance = t5.max_distance();
  return reader.Done<BiasSpec>(bias);
}

Result DecodeContinuousPosition(const v1::Bias& message,
                                const std::string& field) {
  MemberReader reader(field + ".continuous_position");
  const v1::ContinuousPositionBias& cpb = message.continuous_position();
  ContinuousPositionBias bias;
  bias.height = cpb.height();
  bias.width = cpb.width();
  bias.hidden_weight =
      reader.Ref(cpb.has_hidden_weight(), cpb.hidden_weight(), "hidden_weight");
  bias.hidden_bias =
      reader.Ref(cpb.has_hidden_bias(), cpb.hidden_bias(), "hidden_bias");
  bias.output_weight =
      reader.Ref(cpb.has_output_weight(), cpb.output_weight(), "output_weight");
  return reader.Done<BiasSpec>(bias);
}

Result DecodeConstant(const v1::Bias& message, const std::string& field) {
  MemberReader reader(field + ".constant");
  const v1::ConstantBias& constant = message.constant();
  return reader.Done<BiasSpec>(ConstantBias{
      reader.Ref(constant.has_values(), constant.values(), "values")});
}

constexpr MemberRow<BiasSpec, v1::Bias> kBiases[] = {
    {v1::Bias::kDense, DecodeDense},
    {v1::Bias::kAlibi, DecodeAlibi},
    {v1::Bias::kRelativeTable, DecodeRelativeTable},
    {v1::Bias::kT5, DecodeT5},
    {v1::Bias::kContinuousPosition, DecodeContinuousPosition},
    {v1::Bias::kConstant, DecodeConstant},
};

}  // namespace

Result DecodeBias(const v1::Bias& message, const std::string& field) {
  return DecodeMember(kBiases, message, field);
}

}  // namespace attn
