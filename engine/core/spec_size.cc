#include "engine/core/spec_size.h"

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

int64_t Count(const std::vector<MaskSpec>& masks) {
  auto count = static_cast<int64_t>(masks.size());
  for (const MaskSpec& mask : masks) {
    if (const auto* any_of = std::get_if<AnyOfMask>(&mask)) {
      count += Count(any_of->masks);
    }
  }
  return count;
}

absl::Status CheckCount(absl::string_view field, int64_t count) {
  if (count <= kMaxStages) return absl::OkStatus();
  return FieldError(field, absl::StrCat(count),
                    absl::StrCat("at most ", kMaxStages));
}

}  // namespace

absl::Status CheckSpecSize(const AttentionSpec& spec) {
  for (const absl::Status& status :
       {CheckCount("spec.transforms",
                   static_cast<int64_t>(spec.transforms.size())),
        CheckCount("spec.biases", static_cast<int64_t>(spec.biases.size())),
        CheckCount("spec.masks", Count(spec.masks)),
        CheckCount("spec.sparsifiers",
                   static_cast<int64_t>(spec.sparsifiers.size()))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attn
