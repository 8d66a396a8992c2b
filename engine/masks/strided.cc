// Strided pattern of the Sparse Transformer (Child et al. 2019, section 4.2).

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class Strided final : public PredicateMask<Strided> {
 public:
  explicit Strided(const StridedMask& spec)
      : PredicateMask(spec.alignment), stride_(spec.stride) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    return UpToPosition(call, rows);
  }
  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    const int64_t distance = at.position - key;
    return distance >= 0 && (distance < stride_ || distance % stride_ == 0);
  }

 private:
  int64_t stride_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<StridedMask>(spec);
  const std::string field = absl::StrCat(list_field, ".strided");
  if (mask.stride < 1) {
    return FieldError(absl::StrCat(field, ".stride"), absl::StrCat(mask.stride),
                      "a number >= 1");
  }
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<StridedMask>(spec);
  return absl::StrCat("strided(", mask.stride, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Strided>(std::get<StridedMask>(spec));
}

}  // namespace

MaskEntry StridedMaskEntry() {
  return {"strided", "causal: a local window and every stride-th key",
          8,         Validate,
          Describe,  Make};
}

}  // namespace attn
