// The first keys as attention sinks, and a window (Xiao et al. 2024, section
// 3.2).

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class Streaming final : public PredicateMask<Streaming> {
 public:
  explicit Streaming(const StreamingMask& spec)
      : PredicateMask(spec.alignment), sinks_(spec.sinks), left_(spec.left) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    return UpToPosition(call, rows);
  }
  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    return key <= at.position && (key < sinks_ || at.position - key <= left_);
  }

 private:
  int64_t sinks_;
  int64_t left_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<StreamingMask>(spec);
  const std::string field = absl::StrCat(list_field, ".streaming");
  if (mask.sinks < 0) {
    return FieldError(absl::StrCat(field, ".sinks"), absl::StrCat(mask.sinks),
                      "a number >= 0");
  }
  if (mask.left < 0) {
    return FieldError(absl::StrCat(field, ".left"), absl::StrCat(mask.left),
                      "a number >= 0");
  }
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<StreamingMask>(spec);
  return absl::StrCat("streaming(", mask.sinks, ", ", mask.left, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Streaming>(std::get<StreamingMask>(spec));
}

}  // namespace

MaskEntry StreamingMaskEntry() {
  return {"streaming", "causal: the first keys and a window to the left",
          12,          Validate,
          Describe,    Make};
}

}  // namespace attn
