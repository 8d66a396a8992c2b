#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/decode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

using Result = absl::StatusOr<MaskSpec>;

Alignment ReadAlignment(v1::Alignment value, MemberReader& reader) {
  return reader.Enum<Alignment>(value, v1::Alignment_descriptor(), "alignment",
                                Alignment::kUnspecified);
}

Result DecodeCausal(const v1::Mask& message, const std::string& field) {
  MemberReader reader(field + ".causal");
  return reader.Done<MaskSpec>(
      CausalMask{ReadAlignment(message.causal().alignment(), reader)});
}

Result DecodeWindow(const v1::Mask& message, const std::string& field) {
  const v1::WindowMask& window = message.window();
  MemberReader reader(field + ".window");
  WindowMask mask;
  mask.left = Optional(window.has_left(), int64_t{window.left()});
  mask.right = Optional(window.has_right(), int64_t{window.right()});
  mask.alignment = ReadAlignment(window.alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeDense(const v1::Mask& message, const std::string& field) {
  const v1::DenseMask& dense = message.dense();
  MemberReader reader(field + ".dense");
  return reader.Done<MaskSpec>(
      DenseMask{reader.Ref(dense.has_tensor(), dense.tensor(), "tensor")});
}

Result DecodePrefix(const v1::Mask& message, const std::string& field) {
  const v1::PrefixMask& prefix = message.prefix();
  MemberReader reader(field + ".prefix");
  PrefixMask mask;
  mask.prefix.assign(prefix.prefix().begin(), prefix.prefix().end());
  mask.alignment = ReadAlignment(prefix.alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeSegment(const v1::Mask& message, const std::string& field) {
  const v1::SegmentMask& segment = message.segment();
  MemberReader reader(field + ".segment");
  SegmentMask mask;
  mask.q_segments =
      reader.Ref(segment.has_q_segments(), segment.q_segments(), "q_segments");
  mask.kv_segments = reader.Ref(segment.has_kv_segments(),
                                segment.kv_segments(), "kv_segments");
  return reader.Done<MaskSpec>(mask);
}

Result DecodeBlockSparse(const v1::Mask& message, const std::string& field) {
  const v1::BlockSparseMask& sparse = message.block_sparse();
  MemberReader reader(field + ".block_sparse");
  BlockSparseMask mask;
  mask.layout = reader.Ref(sparse.has_layout(), sparse.layout(), "layout");
  mask.q_block = sparse.q_block();
  mask.kv_block = sparse.kv_block();
  return reader.Done<MaskSpec>(mask);
}

Result DecodeGlobal(const v1::Mask& message, const std::string& field) {
  const v1::GlobalMask& global = message.global();
  MemberReader reader(field + ".global");
  GlobalMask mask;
  mask.tokens.assign(global.tokens().begin(), global.tokens().end());
  mask.alignment = ReadAlignment(global.alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeDilated(const v1::Mask& message, const std::string& field) {
  const v1::DilatedMask& dilated = message.dilated();
  MemberReader reader(field + ".dilated");
  DilatedMask mask;
  mask.dilation = dilated.dilation();
  mask.radius = Optional(dilated.has_radius(), int64_t{dilated.radius()});
  mask.alignment = ReadAlignment(dilated.alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeStrided(const v1::Mask& message, const std::string& field) {
  MemberReader reader(field + ".strided");
  StridedMask mask;
  mask.stride = message.strided().stride();
  mask.alignment = ReadAlignment(message.strided().alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeFixed(const v1::Mask& message, const std::string& field) {
  MemberReader reader(field + ".fixed");
  FixedMask mask;
  mask.stride = message.fixed().stride();
  mask.summary = message.fixed().summary();
  mask.alignment = ReadAlignment(message.fixed().alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeBigBird(const v1::Mask& message, const std::string& /*field*/) {
  const v1::BigBirdMask& bird = message.big_bird();
  BigBirdMask mask;
  mask.block = bird.block();
  mask.window_blocks = bird.window_blocks();
  mask.global_blocks = bird.global_blocks();
  mask.random_blocks = bird.random_blocks();
  mask.seed = bird.seed();
  return mask;
}

Result DecodeLongformer(const v1::Mask& message, const std::string& field) {
  const v1::LongformerMask& longformer = message.longformer();
  MemberReader reader(field + ".longformer");
  LongformerMask mask;
  mask.radius = longformer.radius();
  mask.global_tokens.assign(longformer.global_tokens().begin(),
                            longformer.global_tokens().end());
  mask.alignment = ReadAlignment(longformer.alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

Result DecodeStreaming(const v1::Mask& message, const std::string& field) {
  MemberReader reader(field + ".streaming");
  StreamingMask mask;
  mask.sinks = message.streaming().sinks();
  mask.left = message.streaming().left();
  mask.alignment = ReadAlignment(message.streaming().alignment(), reader);
  return reader.Done<MaskSpec>(mask);
}

// Protobuf's own parser bounds the depth of messages.
Result DecodeAnyOf(const v1::Mask& message, const std::string& field) {
  AnyOfMask any_of;
  const auto& masks = message.any_of().masks();
  for (int i = 0; i < masks.size(); ++i) {
    auto mask =
        DecodeMask(masks[i], absl::StrCat(field, ".any_of.masks[", i, "]"));
    if (!mask.ok()) return mask.status();
    any_of.masks.push_back(*std::move(mask));
  }
  return any_of;
}

Result DecodeProgramMask(const v1::Mask& message, const std::string& field) {
  auto program =
      DecodeProgram(message.program().program(), field + ".program.program");
  if (!program.ok()) return program.status();
  return ProgramMask{*std::move(program)};
}

constexpr MemberRow<MaskSpec, v1::Mask> kMasks[] = {
    {v1::Mask::kCausal, DecodeCausal},
    {v1::Mask::kWindow, DecodeWindow},
    {v1::Mask::kDense, DecodeDense},
    {v1::Mask::kPrefix, DecodePrefix},
    {v1::Mask::kSegment, DecodeSegment},
    {v1::Mask::kBlockSparse, DecodeBlockSparse},
    {v1::Mask::kGlobal, DecodeGlobal},
    {v1::Mask::kDilated, DecodeDilated},
    {v1::Mask::kStrided, DecodeStrided},
    {v1::Mask::kFixed, DecodeFixed},
    {v1::Mask::kBigBird, DecodeBigBird},
    {v1::Mask::kLongformer, DecodeLongformer},
    {v1::Mask::kStreaming, DecodeStreaming},
    {v1::Mask::kAnyOf, DecodeAnyOf},
    {v1::Mask::kProgram, DecodeProgramMask},
};

}  // namespace

Result DecodeMask(const v1::Mask& message, const std::string& field) {
  return DecodeMember(kMasks, message, field);
}

absl::StatusOr<ProgramSpec> DecodeProgram(const v1::Program& message,
                                          const std::string& field) {
  MemberReader reader(field);
  ProgramSpec program;
  program.source = message.source();
  for (int i = 0; i < message.tables_size(); ++i) {
    const v1::ProgramTable& table = message.tables(i);
    MemberReader inner(absl::StrCat(field, ".tables[", i, "]"));
    ProgramTable read{table.name(),
                      inner.Ref(table.has_tensor(), table.tensor(), "tensor")};
    reader.Update(inner.Done(read).status());
    program.tables.push_back(std::move(read));
  }
  return reader.Done(std::move(program));
}

}  // namespace attn
