// Global tokens see, and are seen by, everything (Beltagy et al. 2020, section
// 3.1). Joined to other masks by any_of.
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"
#include "engine/masks/token_set.h"

namespace attn {
namespace {

class Global final : public PredicateMask<Global> {
 public:
  explicit Global(const GlobalMask& spec)
      : PredicateMask(spec.alignment), tokens_(spec.tokens) {}

  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    return tokens_.Contains(key) || tokens_.Contains(at.position);
  }

 private:
  TokenSet tokens_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<GlobalMask>(spec);
  const std::string field = absl::StrCat(list_field, ".global");
  absl::Status status =
      CheckTokens(mask.tokens, absl::StrCat(field, ".tokens"));
  if (!status.ok()) return status;
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<GlobalMask>(spec);
  return absl::StrCat("global(", mask.tokens.size(), " tokens)");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Global>(std::get<GlobalMask>(spec));
}

}  // namespace

MaskEntry GlobalMaskEntry() {
  return {"global", "global tokens see all keys and are seen by all queries",
          6,        Validate,
          Describe, Make};
}

}  // namespace attn
