// A window and global tokens (Beltagy et al. 2020, section 3.1).
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"
#include "engine/masks/token_set.h"

namespace attn {
namespace {

class Longformer final : public PredicateMask<Longformer> {
 public:
  explicit Longformer(const LongformerMask& spec)
      : PredicateMask(spec.alignment),
        radius_(spec.radius),
        tokens_(spec.global_tokens) {}

  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    return std::abs(at.position - key) <= radius_ || tokens_.Contains(key) ||
           tokens_.Contains(at.position);
  }

 private:
  int64_t radius_;
  TokenSet tokens_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<LongformerMask>(spec);
  const std::string field = absl::StrCat(list_field, ".longformer");
  if (mask.radius < 0) {
    return FieldError(absl::StrCat(field, ".radius"), absl::StrCat(mask.radius),
                      "a number >= 0");
  }
  absl::Status status =
      CheckTokens(mask.global_tokens, absl::StrCat(field, ".global_tokens"));
  if (!status.ok()) return status;
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<LongformerMask>(spec);
  return absl::StrCat("longformer(", mask.radius, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Longformer>(std::get<LongformerMask>(spec));
}

}  // namespace

MaskEntry LongformerMaskEntry() {
  return {"longformer", "a window and global tokens", 11, Validate, Describe,
          Make};
}

}  // namespace attn
