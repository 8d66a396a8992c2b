// A prefix that every query sees, then causal (Raffel et al. 2020, section
// 3.1.4: prefix language model).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/masks/band.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class Prefix final : public PredicateMask<Prefix> {
 public:
  explicit Prefix(const PrefixMask& spec)
      : PredicateMask(spec.alignment), prefix_(spec.prefix) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    const int64_t end =
        std::max(UpToPosition(call, rows).end, PrefixOf(rows.batch));
    return {0, std::min(end, call.shape.kv_length)};
  }
  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    return key <= at.position || key < PrefixOf(at.batch);
  }

 private:
  int64_t PrefixOf(int64_t batch) const {
    return prefix_[prefix_.size() == 1 ? 0 : static_cast<size_t>(batch)];
  }

  std::vector<int64_t> prefix_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<PrefixMask>(spec);
  const std::string field = absl::StrCat(list_field, ".prefix");
  const auto count = static_cast<int64_t>(mask.prefix.size());
  if (count != 1 && count != problem.shape.batch) {
    return FieldError(absl::StrCat(field, ".prefix"),
                      absl::StrCat(count, " lengths"),
                      absl::StrCat("one, or one for each of ",
                                   problem.shape.batch, " batch entries"));
  }
  for (size_t i = 0; i < mask.prefix.size(); ++i) {
    if (mask.prefix[i] >= 0) continue;
    return FieldError(absl::StrCat(field, ".prefix[", i, "]"),
                      absl::StrCat(mask.prefix[i]), "a length >= 0");
  }
  return CheckAlignment(mask.alignment, problem,
                        absl::StrCat(field, ".alignment"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& prefix = std::get<PrefixMask>(spec).prefix;
  return prefix.size() == 1 ? absl::StrCat("prefix(", prefix[0], ")")
                            : "prefix(by batch entry)";
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Prefix>(std::get<PrefixMask>(spec));
}

}  // namespace

MaskEntry PrefixMaskEntry() {
  return {"prefix", "a prefix that all queries see, then causal",
          3,        Validate,
          Describe, Make};
}

}  // namespace attn
