#include "server/rpc/layer_lookup.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr absl::string_view kExpected = ", expected ";

// ".input" where the request says ".layer".
std::string AsInput(const std::string& field) {
  constexpr absl::string_view kLayer = ".layer";
  return absl::StrCat(field.substr(0, field.size() - kLayer.size()), ".input");
}

// The field of `ref` that an error of the engine's is about; empty if none is.
// The engine knows the tensor by the place of its reference, or by `index`.
std::string FieldMeant(const LayerReference& ref, const std::string& named,
                       size_t index) {
  if (absl::StartsWith(named, absl::StrCat("inputs[", index, "]"))) {
    return ref.field;
  }
  if (named == AsInput(ref.field)) return ref.field;
  for (const std::string& field : ref.more_fields) {
    if (named == AsInput(field)) return field;
  }
  return "";
}

}  // namespace

absl::Status NameLayers(const absl::Status& status, const WireCall& call) {
  const auto named = FieldOf(status);
  if (!named.has_value()) return status;
  const size_t own = call.args.inputs.size() - call.layer_refs.size();
  for (size_t i = 0; i < call.layer_refs.size(); ++i) {
    const LayerReference& ref = call.layer_refs[i];
    const std::string field = FieldMeant(ref, *named, own + i);
    if (field.empty()) continue;
    // "<field>: got <what>, expected <what>".
    absl::string_view text = status.message();
    const bool fits = absl::ConsumePrefix(&text, *named + ": got ");
    const size_t middle = text.find(kExpected);
    if (!fits || middle == absl::string_view::npos) return status;
    return FieldError(field,
                      absl::StrCat("tensor \"", ref.tensor, "\" of layer \"",
                                   ref.layer, "\": ", text.substr(0, middle)),
                      text.substr(middle + kExpected.size()));
  }
  return status;
}

absl::Status AppendLayers(const LayerStore* store, WireCall& call) {
  std::map<std::string, std::shared_ptr<const Layer>> layers;
  for (const LayerReference& ref : call.layer_refs) {
    std::shared_ptr<const Layer>& layer = layers[ref.layer];
    if (layer == nullptr && store != nullptr) layer = store->Find(ref.layer);
    if (layer == nullptr) {
      return FieldError(ref.field, absl::StrCat("no layer \"", ref.layer, "\""),
                        "a layer of this server");
    }
    const StoredTensor* tensor = layer->Find(ref.tensor);
    if (tensor == nullptr) {
      return FieldError(ref.field,
                        absl::StrCat("no tensor \"", ref.tensor,
                                     "\" in layer \"", ref.layer, "\""),
                        "a tensor of the layer");
    }
    call.args.inputs.push_back(tensor->view());
  }
  for (const auto& [name, layer] : layers) call.owners.push_back(layer);
  return absl::OkStatus();
}

}  // namespace attn
