// Every n-th key (Beltagy et al. 2020, section 3.1: dilated window).
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class Dilated final : public PredicateMask<Dilated> {
 public:
  explicit Dilated(const DilatedMask& spec)
      : PredicateMask(spec.alignment),
        dilation_(spec.dilation),
        radius_(spec.radius) {}

  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    const int64_t distance = std::abs(at.position - key);
    return distance % dilation_ == 0 && distance <= radius_.value_or(distance);
  }

 private:
  int64_t dilation_;
  std::optional<int64_t> radius_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<DilatedMask>(spec);
  const std::string field = absl::StrCat(list_field, ".dilated");
  if (mask.dilation < 1) {
    return FieldError(absl::StrCat(field, ".dilation"),
                      absl::StrCat(mask.dilation), "a number >= 1");
  }
  if (mask.radius.value_or(0) < 0) {
    return FieldError(absl::StrCat(field, ".radius"),
                      absl::StrCat(*mask.radius),
                      "a distance >= 0, or none for unbounded");
  }
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<DilatedMask>(spec);
  return absl::StrCat("dilated(", mask.dilation, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Dilated>(std::get<DilatedMask>(spec));
}

}  // namespace

MaskEntry DilatedMaskEntry() {
  return {"dilated", "every n-th key around the query", 7, Validate, Describe,
          Make};
}

}  // namespace attn
