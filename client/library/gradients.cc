#include "client/library/gradients.h"

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

using Numbers = v1::AttendBackwardResponse;

struct NamedGradient {
  const char* name;
  int field;
};

constexpr NamedGradient kGradients[] = {{"d_q", Numbers::kDQFieldNumber},
                                        {"d_k", Numbers::kDKFieldNumber},
                                        {"d_v", Numbers::kDVFieldNumber}};

std::string InputName(uint32_t index) {
  return absl::StrCat("d_input_", index);
}

std::string LayerName(const v1::LayerTensor& named) {
  return absl::StrCat("d_", named.layer(), "/", named.tensor());
}

// Null if the result does not have it.
const ResponseTensor* Find(const BackwardResult& result,
                           const std::string& name) {
  for (const NamedGradient& row : kGradients) {
    if (name == row.name) return result.Find(row.field);
  }
  for (const uint32_t index : result.header.gradient_inputs()) {
    if (name == InputName(index)) return FindInputGradient(result, index);
  }
  for (const v1::LayerTensor& named : result.header.gradient_layers()) {
    if (name != LayerName(named)) continue;
    return FindLayerGradient(result, named.layer(), named.tensor());
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> GradientNames(const BackwardResult& result) {
  std::vector<std::string> names;
  for (const NamedGradient& row : kGradients) {
    if (result.Find(row.field) != nullptr) names.emplace_back(row.name);
  }
  for (const uint32_t index : result.header.gradient_inputs()) {
    names.push_back(InputName(index));
  }
  for (const v1::LayerTensor& named : result.header.gradient_layers()) {
    names.push_back(LayerName(named));
  }
  return names;
}

absl::StatusOr<HostTensor> GradientOf(const BackwardResult& result,
                                      const std::string& name) {
  const ResponseTensor* tensor = Find(result, name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the response has no ", name, "; ask for it"));
  }
  return HostTensor::Copy(
      TensorView::Dense(tensor->data.data(), tensor->dtype, tensor->shape));
}

}  // namespace attn
