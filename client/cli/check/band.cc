#include "client/cli/check/band.h"

#include <algorithm>
#include <utility>

namespace attn {
namespace {

// Bottom right goes first, so that cases which name it test it.
std::optional<Alignment> AlignmentOf(const CaseBand& band,
                                     const ServiceCall& call) {
  if (band.offsets == BottomRightOffsets(call)) return Alignment::kBottomRight;
  if (std::all_of(band.offsets.begin(), band.offsets.end(),
                  [](int64_t offset) { return offset == 0; })) {
    return Alignment::kTopLeft;
  }
  return std::nullopt;
}

HostTensor DenseBand(const CaseBand& band, const ServiceCall& call) {
  HostTensor mask(DType::kBool,
                  Shape{call.batch(), 1, call.q_length(), call.kv_length()});
  int64_t at = 0;
  for (const int64_t offset : band.offsets) {
    for (int64_t i = 0; i < call.q_length(); ++i) {
      for (int64_t j = 0; j < call.kv_length(); ++j, ++at) {
        const int64_t distance = j - (i + offset);
        const bool after =
            !band.left.has_value() || distance >= -*band.left || j < band.sinks;
        const bool before = !band.right.has_value() || distance <= *band.right;
        mask.Set(at, after && before ? 1 : 0);
      }
    }
  }
  return mask;
}

}  // namespace

std::vector<int64_t> BottomRightOffsets(const ServiceCall& call) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b < call.batch(); ++b) {
    offsets.push_back(call.kv_length(b) - call.q_length());
  }
  return offsets;
}

namespace {

// j < sinks or p - left <= j; and j <= p + right.
void AddWithSinks(const CaseBand& band, Alignment alignment,
                  ServiceCall& call) {
  if (band.right == 0) {
    call.spec.masks.emplace_back(StreamingMask{
        .sinks = band.sinks, .left = *band.left, .alignment = alignment});
    return;
  }
  HostTensor first(DType::kBool, Shape{call.kv_length()});
  for (int64_t j = 0; j < call.kv_length(); ++j) {
    first.Set(j, j < band.sinks ? 1 : 0);
  }
  AnyOfMask either;
  either.masks = {
      WindowMask{
          .left = band.left, .right = std::nullopt, .alignment = alignment},
      DenseMask{.input = call.AddInput(std::move(first))}};
  call.spec.masks.emplace_back(std::move(either));
  if (!band.right.has_value()) return;
  call.spec.masks.emplace_back(WindowMask{
      .left = std::nullopt, .right = band.right, .alignment = alignment});
}

}  // namespace

void AddBand(const CaseBand& band, ServiceCall& call) {
  const std::optional<Alignment> alignment = AlignmentOf(band, call);
  if (!alignment.has_value()) {
    call.AddMask(DenseBand(band, call));
  } else if (band.sinks > 0 && band.left.has_value()) {
    AddWithSinks(band, *alignment, call);
  } else if (!band.left.has_value() && band.right == 0) {
    call.spec.masks.emplace_back(CausalMask{.alignment = *alignment});
  } else {
    call.spec.masks.emplace_back(WindowMask{
        .left = band.left, .right = band.right, .alignment = *alignment});
  }
}

}  // namespace attn
