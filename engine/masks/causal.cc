// No key after the query: j <= position(i).
#include "absl/strings/str_cat.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"

namespace attn {
namespace {

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view field) {
  return CheckAlignment(std::get<CausalMask>(spec).alignment, problem,
                        absl::StrCat(field, ".causal.alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const Alignment alignment = std::get<CausalMask>(spec).alignment;
  if (alignment == Alignment::kUnspecified) return "causal";
  return absl::StrCat("causal(", AlignmentName(alignment), ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Band>(std::nullopt, 0,
                                std::get<CausalMask>(spec).alignment);
}

}  // namespace

MaskEntry CausalMaskEntry() {
  return {"causal", "keys up to the query's own position",
          0,        Validate,
          Describe, Make};
}

}  // namespace attn
