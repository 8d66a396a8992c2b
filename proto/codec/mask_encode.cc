#include "proto/codec/encode_member.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

v1::Alignment OnWire(Alignment alignment) {
  return static_cast<v1::Alignment>(alignment);
}

void Encode(const CausalMask& mask, v1::Mask& message) {
  message.mutable_causal()->set_alignment(OnWire(mask.alignment));
}

void Encode(const WindowMask& mask, v1::Mask& message) {
  v1::WindowMask& window = *message.mutable_window();
  if (mask.left) window.set_left(*mask.left);
  if (mask.right) window.set_right(*mask.right);
  window.set_alignment(OnWire(mask.alignment));
}

void Encode(const DenseMask& mask, v1::Mask& message) {
  message.mutable_dense()->mutable_tensor()->set_input(mask.input);
}

void Encode(const PrefixMask& mask, v1::Mask& message) {
  v1::PrefixMask& prefix = *message.mutable_prefix();
  prefix.mutable_prefix()->Add(mask.prefix.begin(), mask.prefix.end());
  prefix.set_alignment(OnWire(mask.alignment));
}

void Encode(const SegmentMask& mask, v1::Mask& message) {
  v1::SegmentMask& segment = *message.mutable_segment();
  segment.mutable_q_segments()->set_input(mask.q_segments);
  segment.mutable_kv_segments()->set_input(mask.kv_segments);
}

void Encode(const BlockSparseMask& mask, v1::Mask& message) {
  v1::BlockSparseMask& sparse = *message.mutable_block_sparse();
  sparse.mutable_layout()->set_input(mask.layout);
  sparse.set_q_block(mask.q_block);
  sparse.set_kv_block(mask.kv_block);
}

void Encode(const GlobalMask& mask, v1::Mask& message) {
  v1::GlobalMask& global = *message.mutable_global();
  global.mutable_tokens()->Add(mask.tokens.begin(), mask.tokens.end());
  global.set_alignment(OnWire(mask.alignment));
}

void Encode(const DilatedMask& mask, v1::Mask& message) {
  v1::DilatedMask& dilated = *message.mutable_dilated();
  dilated.set_dilation(mask.dilation);
  if (mask.radius) dilated.set_radius(*mask.radius);
  dilated.set_alignment(OnWire(mask.alignment));
}

void Encode(const StridedMask& mask, v1::Mask& message) {
  message.mutable_strided()->set_stride(mask.stride);
  message.mutable_strided()->set_alignment(OnWire(mask.alignment));
}

void Encode(const FixedMask& mask, v1::Mask& message) {
  message.mutable_fixed()->set_stride(mask.stride);
  message.mutable_fixed()->set_summary(mask.summary);
  message.mutable_fixed()->set_alignment(OnWire(mask.alignment));
}

void Encode(const BigBirdMask& mask, v1::Mask& message) {
  v1::BigBirdMask& bird = *message.mutable_big_bird();
  bird.set_block(mask.block);
  bird.set_window_blocks(mask.window_blocks);
  bird.set_global_blocks(mask.global_blocks);
  bird.set_random_blocks(mask.random_blocks);
  bird.set_seed(mask.seed);
}

void Encode(const LongformerMask& mask, v1::Mask& message) {
  v1::LongformerMask& longformer = *message.mutable_longformer();
  longformer.set_radius(mask.radius);
  longformer.mutable_global_tokens()->Add(mask.global_tokens.begin(),
                                          mask.global_tokens.end());
  longformer.set_alignment(OnWire(mask.alignment));
}

void Encode(const StreamingMask& mask, v1::Mask& message) {
  message.mutable_streaming()->set_sinks(mask.sinks);
  message.mutable_streaming()->set_left(mask.left);
  message.mutable_streaming()->set_alignment(OnWire(mask.alignment));
}

void Encode(const AnyOfMask& mask, v1::Mask& message) {
  v1::AnyOfMask& any_of = *message.mutable_any_of();
  for (const MaskSpec& member : mask.masks) {
    *any_of.add_masks() = EncodeMask(member);
  }
}

void Encode(const ProgramMask& mask, v1::Mask& message) {
  *message.mutable_program()->mutable_program() = EncodeProgram(mask.program);
}

}  // namespace

v1::Mask EncodeMask(const MaskSpec& spec) {
  v1::Mask message;
  std::visit([&message](const auto& member) { Encode(member, message); },
             static_cast<const MaskSpec::variant&>(spec));
  return message;
}

v1::Program EncodeProgram(const ProgramSpec& spec) {
  v1::Program message;
  message.set_source(spec.source);
  for (const ProgramTable& table : spec.tables) {
    v1::ProgramTable& entry = *message.add_tables();
    entry.set_name(table.name);
    entry.mutable_tensor()->set_input(table.input);
  }
  return message;
}

}  // namespace attn
