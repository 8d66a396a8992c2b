#include "server/rpc/layer_lookup.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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

// The layers that one call names, each of one version.
class LayersOfCall {
 public:
  explicit LayersOfCall(const LayerStore* store) : store_(store) {}

  // `Reference` has a layer, a tensor and a field.
  template <typename Reference>
  absl::StatusOr<TensorView> Find(const Reference& ref) {
    std::shared_ptr<const Layer>& layer = layers_[ref.layer];
    if (layer == nullptr && store_ != nullptr) layer = store_->Find(ref.layer);
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
    return tensor->view();
  }
  void MoveTo(std::vector<std::shared_ptr<const void>>& owners) {
    for (auto& [name, layer] : layers_) owners.push_back(std::move(layer));
    layers_.clear();
  }

 private:
  const LayerStore* const store_;
  std::map<std::string, std::shared_ptr<const Layer>> layers_;
};

TensorView& Operand(absl::string_view name, AttentionArgs& args) {
  if (name == "q") return args.q;
  return name == "k" ? args.k : args.v;
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
  LayersOfCall layers(store);
  for (const LayerReference& ref : call.layer_refs) {
    const auto tensor = layers.Find(ref);
    if (!tensor.ok()) return tensor.status();
    call.args.inputs.push_back(*tensor);
  }
  for (const OperandReference& ref : call.operand_refs) {
    const auto tensor = layers.Find(ref);
    if (!tensor.ok()) return tensor.status();
    Operand(ref.operand, call.args) = *tensor;
  }
  layers.MoveTo(call.owners);
  return absl::OkStatus();
}

}  // namespace attn
