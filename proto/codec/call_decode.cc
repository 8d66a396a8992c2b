#include "proto/codec/call_decode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/field_error.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

using Numbers = v1::AttendRequest;

constexpr size_t kMaxRequestIdBytes = 128;

bool Has(const WireMessage& message, absl::string_view name) {
  return std::any_of(message.tensors.begin(), message.tensors.end(),
                     [name](const WireTensor& t) { return t.name == name; });
}

// The reference in place of q, k or v; null if there is none.
const OperandReference* FindReference(const WireMessage& message,
                                      absl::string_view operand) {
  for (const OperandReference& ref : message.operand_refs) {
    if (ref.operand == operand) return &ref;
  }
  return nullptr;
}

// q, k and v, or qkv or tensors of layers in their place.
absl::Status CheckPresent(const WireMessage& message,
                          const AttentionSpec& spec) {
  const bool packed = Has(message, "qkv");
  for (const char* name : {"q", "k", "v"}) {
    const OperandReference* reference = FindReference(message, name);
    const bool sent = Has(message, name);
    if (sent && reference != nullptr) {
      return FieldError(reference->field, absl::StrCat("a layer beside ", name),
                        "one of the two");
    }
    const bool present = sent || reference != nullptr;
    if (packed && present) return BesideQkv(name);
    const bool made = absl::string_view(name) == "v" && MakesValues(spec);
    if (!packed && !present && !made) return MissingTensor(name);
  }
  return absl::OkStatus();
}

}  // namespace

TensorView WireCall::Extra(int field) const {
  for (const ExtraTensor& extra : extras) {
    if (extra.field == field) return extra.view;
  }
  return {};
}

absl::StatusOr<WireMessage> ReadRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, google::protobuf::Message& request,
    int max_tensors) {
  const google::protobuf::Descriptor* type = request.GetDescriptor();
  auto message = ReadWireMessage(stream, size, type,
                                 {.payload_bytes = max_payload_bytes,
                                  .metadata_bytes = kMaxMetadataBytes,
                                  .tensors = max_tensors});
  if (!message.ok()) return message.status();
  if (!request.ParseFromString(message->metadata)) {
    return FieldError(type->name(), "malformed protobuf in the metadata",
                      "a well-formed message, its strings in UTF-8");
  }
  const auto inputs =
      std::count_if(message->tensors.begin(), message->tensors.end(),
                    [](const WireTensor& t) {
                      return t.field == Numbers::kInputsFieldNumber;
                    });
  auto layers = TakeLayerReferencesOf(request, static_cast<size_t>(inputs));
  if (!layers.ok()) return layers.status();
  message->layer_refs = *std::move(layers);
  return message;
}

absl::StatusOr<std::vector<LayerReference>> TakeLayerReferencesOf(
    google::protobuf::Message& request, size_t inputs) {
  const auto* field = request.GetDescriptor()->FindFieldByName("spec");
  const google::protobuf::Reflection& reflection = *request.GetReflection();
  if (field == nullptr || !reflection.HasField(request, field)) {
    return std::vector<LayerReference>();
  }
  return TakeLayerReferences(*reflection.MutableMessage(&request, field),
                             static_cast<uint32_t>(inputs), "spec");
}

absl::Status DecodeTensors(WireMessage& message, WireCall& call) {
  absl::Status present = CheckPresent(message, call.spec);
  if (!present.ok()) return present;
  for (WireTensor& tensor : message.tensors) {
    auto view = DecodeTensor(tensor);
    if (!view.ok()) return view.status();
    absl::Status status =
        PlaceTensor(*std::move(view), tensor.field, tensor.metadata.layout(),
                    tensor.name, call);
    if (!status.ok()) return status;
    call.storage.push_back(std::move(tensor.data));
  }
  call.payload_bytes = message.payload_bytes;
  call.layer_refs = std::move(message.layer_refs);
  call.operand_refs = std::move(message.operand_refs);
  return absl::OkStatus();
}

absl::Status PlaceTensor(TensorView view, int field, v1::TensorLayout layout,
                         const std::string& name, WireCall& call) {
  const bool is_input = field == Numbers::kInputsFieldNumber;
  if (is_input && layout != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return FieldError(absl::StrCat(name, ".layout"), absl::StrCat(layout),
                      "none; only q, k and v have a layout");
  }
  if (name == "qkv" && layout != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return FieldError("qkv.layout", absl::StrCat(layout),
                      "none; the order of its axes is fixed");
  }
  auto placed = FromLayout(std::move(view), layout, name);
  if (!placed.ok()) return placed.status();
  const bool bshd = layout == v1::TENSOR_LAYOUT_BSHD;
  if (is_input) {
    call.args.inputs.push_back(*std::move(placed));
  } else if (field == Numbers::kQFieldNumber) {
    call.args.q = *std::move(placed);
    call.bshd = bshd;
  } else if (field == Numbers::kKFieldNumber) {
    call.args.k = *std::move(placed);
    call.k_bshd = bshd;
  } else if (field == Numbers::kVFieldNumber) {
    call.args.v = *std::move(placed);
    call.v_bshd = bshd;
  } else {
    call.extras.push_back({field, *std::move(placed)});
  }
  return absl::OkStatus();
}

absl::Status MissingTensor(absl::string_view field) {
  return FieldError(field, "nothing", "a tensor");
}

absl::Status BesideQkv(absl::string_view field) {
  return FieldError(field, "a tensor beside qkv", "qkv, or q, k and v");
}

absl::Status DecodeRequestId(const std::string& request_id, WireCall& call) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat(request_id.size(), " bytes"),
                      absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"));
  }
  for (const char c : request_id) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      return FieldError("request_id",
                        absl::StrFormat("control character 0x%02x", byte),
                        "printable text");
    }
  }
  call.request_id = request_id;
  return absl::OkStatus();
}

absl::Status DecodePriority(v1::Priority priority, WireCall& call) {
  if (!v1::Priority_IsValid(priority)) {
    return EnumError("priority", priority, v1::Priority_descriptor(),
                     /*zero_is_legal=*/true);
  }
  if (priority != v1::PRIORITY_UNSPECIFIED) call.priority = priority;
  return absl::OkStatus();
}

}  // namespace attn
