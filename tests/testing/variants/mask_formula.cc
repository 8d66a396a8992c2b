#include <algorithm>
#include <cstdlib>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

// p(i)
int64_t PositionOf(const VariantCase& call, Alignment alignment,
                   const Pair& at) {
  if (alignment != Alignment::kBottomRight) return at.query;
  return at.query + call.KvLength(at.batch) - call.shape.q_length;
}

bool Holds(const std::vector<int64_t>& tokens, int64_t token) {
  return std::count(tokens.begin(), tokens.end(), token) > 0;
}

bool Inside(const WindowMask& mask, int64_t p, int64_t key) {
  if (mask.left && key < p - *mask.left) return false;
  return !mask.right || key <= p + *mask.right;
}

bool SameSegment(const VariantCase& call, const SegmentMask& mask,
                 const Pair& at) {
  return Read(call.inputs[mask.q_segments], at.batch, {at.query}) ==
         Read(call.inputs[mask.kv_segments], at.batch, {at.key});
}

bool BlockAllows(const VariantCase& call, const BlockSparseMask& mask,
                 const Pair& at) {
  const Parameter& layout = call.inputs[mask.layout];
  const int64_t row = at.query / mask.q_block;
  const int64_t column = at.key / mask.kv_block;
  if (layout.shape.size() == 4) {
    const int64_t head = layout.shape[1] == 1 ? 0 : at.head;
    return Read(layout, layout.shape[0] == 1 ? 0 : at.batch,
                {head, row, column}) != 0;
  }
  const bool one = layout.shape.size() == 3 && layout.shape[0] == 1;
  return Read(layout, one ? 0 : at.head, {row, column}) != 0;
}

// Window, global and random blocks; the random ones are the first of a
// Fisher-Yates shuffle of the others, step i by Philox at {i, row, head, 0}.
bool BigBirdAllows(const VariantCase& call, const BigBirdMask& mask,
                   const Pair& at) {
  const int64_t row = at.query / mask.block;
  const int64_t column = at.key / mask.block;
  const auto near = [&](int64_t block) {
    return row < mask.global_blocks || block < mask.global_blocks ||
           2 * std::abs(row - block) < mask.window_blocks;
  };
  if (near(column)) return true;
  std::vector<int64_t> others;
  for (int64_t block = 0; block * mask.block < call.shape.kv_length; ++block) {
    if (!near(block)) others.push_back(block);
  }
  for (uint32_t i = 0; i < others.size() && i < mask.random_blocks; ++i) {
    const uint64_t word = Philox(
        {i, static_cast<uint32_t>(row), static_cast<uint32_t>(at.head), 0},
        mask.seed)[0];
    const uint64_t left = others.size() - i;
    std::swap(others[i], others[i + (word * left >> 32)]);
    if (others[i] == column) return true;
  }
  return false;
}

bool DilatedAllows(const DilatedMask& mask, int64_t distance) {
  if (mask.radius && std::abs(distance) > *mask.radius) return false;
  return distance % mask.dilation == 0;
}

}  // namespace

bool Allows(const VariantCase& call, const MaskSpec& spec, const Pair& at) {
  const auto p = [&](const auto& mask) {
    return PositionOf(call, mask.alignment, at);
  };
  const int64_t j = at.key;
  return std::visit(
      Overloaded{
          [&](const CausalMask& mask) { return j <= p(mask); },
          [&](const WindowMask& mask) { return Inside(mask, p(mask), j); },
          [&](const DenseMask& mask) {
            return ReadBroadcast(call.inputs[mask.input], at) != 0;
          },
          [&](const PrefixMask& mask) {
            const size_t entry =
                mask.prefix.size() == 1 ? 0 : static_cast<size_t>(at.batch);
            return j < mask.prefix[entry] || j <= p(mask);
          },
          [&](const SegmentMask& mask) { return SameSegment(call, mask, at); },
          [&](const BlockSparseMask& mask) {
            return BlockAllows(call, mask, at);
          },
          [&](const GlobalMask& mask) {
            return Holds(mask.tokens, j) || Holds(mask.tokens, p(mask));
          },
          [&](const DilatedMask& mask) {
            return DilatedAllows(mask, p(mask) - j);
          },
          [&](const StridedMask& mask) {
            const int64_t back = p(mask) - j;
            return back >= 0 && (back < mask.stride || back % mask.stride == 0);
          },
          [&](const FixedMask& mask) {
            return j <= p(mask) &&
                   (j / mask.stride == p(mask) / mask.stride ||
                    j % mask.stride >= mask.stride - mask.summary);
          },
          [&](const BigBirdMask& mask) {
            return BigBirdAllows(call, mask, at);
          },
          [&](const LongformerMask& mask) {
            return std::abs(p(mask) - j) <= mask.radius ||
                   Holds(mask.global_tokens, j) ||
                   Holds(mask.global_tokens, p(mask));
          },
          [&](const StreamingMask& mask) {
            return j <= p(mask) && (j < mask.sinks || j >= p(mask) - mask.left);
          },
          [&](const AnyOfMask& mask) {
            return std::any_of(
                mask.masks.begin(), mask.masks.end(),
                [&](const MaskSpec& one) { return Allows(call, one, at); });
          },
          [&](const ProgramMask& mask) {
            return RunProgram(call, mask.program, at, 0) != 0;
          }},
      static_cast<const MaskSpec::variant&>(spec));
}

}  // namespace attn::oracle
