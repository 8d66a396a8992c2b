#include "client/library/inspection.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

struct NamedView {
  const char* name;
  bool InspectViews::*wanted;
  int field;  // In InspectResponse.
};

constexpr NamedView kViews[] = {
    {"logits", &InspectViews::logits, v1::InspectResponse::kLogitsFieldNumber},
    {"masked_logits", &InspectViews::masked_logits,
     v1::InspectResponse::kMaskedLogitsFieldNumber},
    {"weights", &InspectViews::weights,
     v1::InspectResponse::kWeightsFieldNumber},
    {"contribution", &InspectViews::contribution,
     v1::InspectResponse::kContributionFieldNumber},
    {"gradient_weight", &InspectViews::gradient_weight,
     v1::InspectResponse::kGradientWeightFieldNumber},
};

}  // namespace

std::vector<std::string> ViewNames() {
  std::vector<std::string> names;
  for (const NamedView& view : kViews) names.emplace_back(view.name);
  return names;
}

absl::Status WantView(const std::string& name, InspectViews& views) {
  for (const NamedView& view : kViews) {
    if (name != view.name) continue;
    views.*view.wanted = true;
    return absl::OkStatus();
  }
  return FieldError("views", absl::StrCat("\"", name, "\""),
                    absl::StrJoin(ViewNames(), ", "));
}

absl::StatusOr<HostTensor> ViewOf(const InspectResult& result,
                                  const std::string& name) {
  for (const NamedView& view : kViews) {
    if (name != view.name) continue;
    const ResponseTensor* tensor = result.Find(view.field);
    if (tensor == nullptr) break;
    return HostTensor::Copy(
        TensorView::Dense(tensor->data.data(), tensor->dtype, tensor->shape));
  }
  return absl::NotFoundError(
      absl::StrCat("the response has no ", name, "; ask for it"));
}

}  // namespace attn
