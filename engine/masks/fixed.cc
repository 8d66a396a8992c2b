// Fixed pattern of the Sparse Transformer (Child et al. 2019, section 4.2).

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class Fixed final : public PredicateMask<Fixed> {
 public:
  explicit Fixed(const FixedMask& spec)
      : PredicateMask(spec.alignment),
        stride_(spec.stride),
        summary_(spec.summary) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    return UpToPosition(call, rows);
  }
  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    // A query before the first key stands in no block.
    if (key > at.position) return false;
    return key / stride_ == at.position / stride_ ||
           key % stride_ >= stride_ - summary_;
  }

 private:
  int64_t stride_;
  int64_t summary_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<FixedMask>(spec);
  const std::string field = absl::StrCat(list_field, ".fixed");
  if (mask.stride < 1) {
    return FieldError(absl::StrCat(field, ".stride"), absl::StrCat(mask.stride),
                      "a number >= 1");
  }
  if (mask.summary < 0 || mask.summary > mask.stride) {
    return FieldError(absl::StrCat(field, ".summary"),
                      absl::StrCat(mask.summary),
                      absl::StrCat("0 to the stride ", mask.stride));
  }
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<FixedMask>(spec);
  return absl::StrCat("fixed(", mask.stride, ", ", mask.summary, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Fixed>(std::get<FixedMask>(spec));
}

}  // namespace

MaskEntry FixedMaskEntry() {
  return {"fixed",  "causal: the own block and the last keys of each block",
          9,        Validate,
          Describe, Make};
}

}  // namespace attn
