// Keys near the query: position(i) - left <= j <= position(i) + right
// (Beltagy, Peters and Cohan 2020, section 3.1).
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"

namespace attn {
namespace {

absl::Status CheckDistance(std::optional<int64_t> distance,
                           absl::string_view field) {
  if (!distance.has_value() || *distance >= 0) return absl::OkStatus();
  return FieldError(field, absl::StrCat(*distance),
                    "a distance >= 0, or none for unbounded");
}

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view field) {
  const auto& window = std::get<WindowMask>(spec);
  absl::Status status =
      CheckDistance(window.left, absl::StrCat(field, ".window.left"));
  status.Update(
      CheckDistance(window.right, absl::StrCat(field, ".window.right")));
  status.Update(CheckAlignment(window.alignment, problem,
                               absl::StrCat(field, ".window.alignment")));
  return status;
}

std::string DistanceName(std::optional<int64_t> distance) {
  return distance.has_value() ? absl::StrCat(*distance) : "unbounded";
}

std::string Describe(const MaskSpec& spec) {
  const auto& window = std::get<WindowMask>(spec);
  const char* alignment = AlignmentName(window.alignment);
  return absl::StrCat("window(", DistanceName(window.left), ", ",
                      DistanceName(window.right),
                      alignment[0] == '\0' ? "" : ", ", alignment, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  const auto& window = std::get<WindowMask>(spec);
  return std::make_unique<Band>(window.left, window.right, window.alignment);
}

}  // namespace

MaskEntry WindowMaskEntry() {
  return {"window", "keys within inclusive distances left and right",
          1,        Validate,
          Describe, Make};
}

}  // namespace attn
