#include "proto/codec/layer_refs.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/descriptor.h"

namespace attn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One walk over a spec. Thread-compatible.
class Walk {
 public:
  explicit Walk(uint32_t first_input) : first_input_(first_input) {}

  // Protobuf's own parser bounds how deep messages nest.
  absl::Status Visit(Message& message, const std::string& path);
  std::vector<LayerReference> TakeFound() { return std::move(found_); }

 private:
  absl::Status Replace(v1::TensorRef& ref, const std::string& path);

  const uint32_t first_input_;
  std::vector<LayerReference> found_;
  std::map<std::pair<std::string, std::string>, uint32_t> indices_;
};

absl::Status Walk::Replace(v1::TensorRef& ref, const std::string& path) {
  if (!ref.has_layer()) return absl::OkStatus();
  const std::string field = absl::StrCat(path, ".layer");
  const v1::LayerTensor& named = ref.layer();
  if (named.layer().empty() || named.tensor().empty()) {
    return FieldError(
        absl::StrCat(field, named.layer().empty() ? ".layer" : ".tensor"),
        "nothing", "a name");
  }
  const auto next = static_cast<uint32_t>(first_input_ + found_.size());
  const auto [place, is_new] =
      indices_.emplace(std::pair(named.layer(), named.tensor()), next);
  if (is_new) {
    found_.push_back({named.layer(), named.tensor(), field});
  } else {
    found_[place->second - first_input_].more_fields.push_back(field);
  }
  ref.set_input(place->second);
  return absl::OkStatus();
}

absl::Status Walk::Visit(Message& message, const std::string& path) {
  if (message.GetDescriptor() == v1::TensorRef::descriptor()) {
    return Replace(static_cast<v1::TensorRef&>(message), path);
  }
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  absl::Status status;
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string name = absl::StrCat(path, ".", field->name());
    if (!field->is_repeated()) {
      status.Update(Visit(*reflection.MutableMessage(&message, field), name));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      status.Update(
          Visit(*reflection.MutableRepeatedMessage(&message, field, i),
                absl::StrCat(name, "[", i, "]")));
    }
  }
  return status;
}

}  // namespace

absl::StatusOr<std::vector<LayerReference>> TakeLayerReferences(
    google::protobuf::Message& spec, uint32_t first_input,
    const std::string& path) {
  Walk walk(first_input);
  absl::Status status = walk.Visit(spec, path);
  if (!status.ok()) return status;
  return walk.TakeFound();
}

}  // namespace attn
