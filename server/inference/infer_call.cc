#include "server/inference/infer_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/field_error.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/spec_codec.h"
#include "server/inference/datatype.h"
#include "server/inference/infer_parameters.h"
#include "server/inference/parameter_value.h"
#include "server/inference/quoted.h"
#include "server/inference/typed_contents.h"

namespace attn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using inference::InferParameter;
using Input = inference::ModelInferRequest::InferInputTensor;
using Numbers = v1::AttendRequest;

constexpr int kInputsField = Numbers::kInputsFieldNumber;

// Tensors of an AttendRequest that have a field of their own.
struct OwnTensor {
  const char* name;
  int field;
};
constexpr OwnTensor kOwnTensors[] = {{"q", Numbers::kQFieldNumber},
                                     {"k", Numbers::kKFieldNumber},
                                     {"v", Numbers::kVFieldNumber},
                                     {"qkv", Numbers::kQkvFieldNumber}};

// "inputs[3]" -> 3
bool IsSpecInput(absl::string_view name, size_t* index) {
  return absl::ConsumePrefix(&name, "inputs[") &&
         absl::ConsumeSuffix(&name, "]") && absl::SimpleAtoi(name, index);
}

// The TensorRef at `path` in a member. Null: there is none,
// and none is to be made.
v1::TensorRef* RefAt(Message& member, const std::string& path, bool make) {
  Message* message = &member;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(std::string(name));
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    if (!make && !reflection.HasField(*message, field)) return nullptr;
    message = reflection.MutableMessage(message, field);
  }
  return static_cast<v1::TensorRef*>(message);
}

// Puts the tensors of one request into their places.
class TensorPlacer {
 public:
  TensorPlacer(const BookBytes& book, const InferModel& model,
               FieldNames& names)
      : book_(book), model_(model), names_(names) {}

  // Makes a tensor of each input.
  absl::Status Read(InferMessage& message);
  // Those of the model's member are inputs, behind those that the spec names by
  // their index, and the member learns which.
  absl::StatusOr<WireMessage> Place(Message* member,
                                    const std::string& member_path);

 private:
  absl::StatusOr<WireTensor> ReadInput(const Input& input,
                                       const std::string& field,
                                       InferContents& contents,
                                       AlignedBuffer* raw) const;
  absl::Status ReadParameters(const Input& input, WireTensor& tensor) const;
  // Moves the tensor of that name into `placed`; false: there is none.
  bool Move(const std::string& name, int field);
  absl::Status RefuseOthers() const;

  const BookBytes& book_;
  const InferModel& model_;
  FieldNames& names_;
  // In the order of the request; those that were placed have a field.
  std::vector<WireTensor> read_;
  WireMessage placed_;
};

absl::Status TensorPlacer::Read(InferMessage& message) {
  const auto count = static_cast<size_t>(message.request.inputs_size());
  const bool raw = !message.raw.empty();
  if (raw && message.raw.size() != count) {
    return FieldError("raw_input_contents",
                      absl::StrCat(message.raw.size(), " contents"),
                      absl::StrCat("one for each of ", count, " inputs"));
  }
  for (size_t i = 0; i < count; ++i) {
    const Input& input = message.request.inputs(static_cast<int>(i));
    auto tensor =
        ReadInput(input, absl::StrCat("inputs[", i, "].name"),
                  message.contents[i], raw ? &message.raw[i] : nullptr);
    if (!tensor.ok()) return tensor.status();
    placed_.payload_bytes += static_cast<int64_t>(tensor->data.size());
    read_.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<WireTensor> TensorPlacer::ReadInput(const Input& input,
                                                   const std::string& field,
                                                   InferContents& contents,
                                                   AlignedBuffer* raw) const {
  const std::string name = FieldPart(input.name());
  const bool known = std::any_of(
      read_.begin(), read_.end(),
      [&name](const WireTensor& tensor) { return tensor.name == name; });
  if (known) return FieldError(field, Quoted(input.name()), "each input once");
  auto dtype = ParseDatatype(input.datatype(), absl::StrCat(name, ".datatype"));
  if (!dtype.ok()) return dtype.status();
  const auto& dims = input.shape();
  auto shape = Shape::Create({dims.data(), static_cast<size_t>(dims.size())},
                             SizeOf(*dtype), absl::StrCat(name, ".shape"));
  if (!shape.ok()) return shape.status();
  WireTensor tensor;
  tensor.name = name;
  tensor.metadata.set_dtype(EncodeDType(*dtype));
  *tensor.metadata.mutable_shape() = dims;
  if (raw == nullptr) {
    auto data = DecodeContents(contents, *dtype, *shape, name, book_);
    if (!data.ok()) return data.status();
    tensor.data = *std::move(data);
  } else if (contents.present) {
    return FieldError(absl::StrCat(name, ".contents"),
                      "contents beside raw_input_contents", "one of the two");
  } else {
    tensor.data = std::move(*raw);
  }
  absl::Status parameters = ReadParameters(input, tensor);
  if (!parameters.ok()) return parameters;
  return tensor;
}

absl::Status TensorPlacer::ReadParameters(const Input& input,
                                          WireTensor& tensor) const {
  for (const auto& [key, value] : input.parameters()) {
    const std::string field =
        absl::StrCat(tensor.name, ".parameters.", FieldPart(key));
    if (key == "layout") {
      v1::TensorLayout layout = v1::TENSOR_LAYOUT_UNSPECIFIED;
      if (!v1::TensorLayout_Parse(
              absl::StrCat("TENSOR_LAYOUT_", value.string_param()), &layout)) {
        return FieldError(field, DescribeParameter(value), "BHSD or BSHD");
      }
      tensor.metadata.set_layout(layout);
    } else if (key == "binary_data_size") {
      // KServe's client says so of raw contents.
      auto bytes = AsInt64(value, field);
      if (!bytes.ok()) return bytes.status();
      if (*bytes != static_cast<int64_t>(tensor.data.size())) {
        return FieldError(
            field, absl::StrCat(*bytes),
            absl::StrCat(tensor.data.size(), ", the bytes of the contents"));
      }
    } else {
      return FieldError(field, DescribeParameter(value),
                        "no other parameter than layout: contents come in the "
                        "message");
    }
  }
  return absl::OkStatus();
}

bool TensorPlacer::Move(const std::string& name, int field) {
  for (WireTensor& tensor : read_) {
    if (tensor.name != name || tensor.field != 0) continue;
    // What is left tells that it was placed.
    tensor.field = field;
    WireTensor& placed = placed_.tensors.emplace_back(std::move(tensor));
    tensor.name = placed.name;
    tensor.field = field;
    if (field == kInputsField) names_.AddInput(name);
    return true;
  }
  return false;
}

absl::StatusOr<WireMessage> TensorPlacer::Place(
    Message* member, const std::string& member_path) {
  for (const OwnTensor& own : kOwnTensors) {
    if (!Move(own.name, own.field)) continue;
    names_.Add(absl::StrCat(own.name, ".dtype"),
               absl::StrCat(own.name, ".datatype"));
  }
  absl::Status missing;
  uint32_t inputs = 0;
  while (Move(absl::StrCat("inputs[", inputs, "]"), kInputsField)) ++inputs;
  for (const MemberTensor& tensor : model_.tensors) {
    const bool moved = Move(tensor.input, kInputsField);
    if (RefAt(*member, tensor.path, /*make=*/false) != nullptr) {
      // A parameter has said where it is.
      if (!moved) continue;
      return FieldError(tensor.input, "a tensor beside a parameter",
                        "one of the two");
    }
    const std::string path = absl::StrCat(member_path, ".", tensor.path);
    names_.Add(path, tensor.input);
    names_.Add(absl::StrCat(path, ".input"), tensor.input);
    if (moved) {
      RefAt(*member, tensor.path, /*make=*/true)->set_input(inputs++);
    }
    if (!moved && tensor.needed() && missing.ok()) {
      missing = MissingTensor(tensor.input);
    }
  }
  // One under another name is what is missing.
  absl::Status status = RefuseOthers();
  if (status.ok()) status = missing;
  if (!status.ok()) return status;
  return std::move(placed_);
}

absl::Status TensorPlacer::RefuseOthers() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    if (read_[i].field != 0) continue;
    const std::string field = absl::StrCat("inputs[", i, "].name");
    size_t index = 0;
    if (IsSpecInput(read_[i].name, &index)) {
      return FieldError(field, read_[i].name,
                        "inputs[0], inputs[1] and so on, none left out");
    }
    std::string known = "q, k and v, or qkv";
    for (const MemberTensor& tensor : model_.tensors) {
      absl::StrAppend(&known, "; ", tensor.input);
    }
    return FieldError(
        field, Quoted(read_[i].name),
        absl::StrCat("an input of model ", model_.name, ": ", known,
                     "; inputs[0] .. that the spec names"));
  }
  return absl::OkStatus();
}

absl::Status ReadOutputs(const inference::ModelInferRequest& request,
                         v1::AttendRequest& call, InferReplyForm& form) {
  for (int i = 0; i < request.outputs_size(); ++i) {
    const auto& output = request.outputs(i);
    const std::string field = absl::StrCat("outputs[", i, "].name");
    const FieldDescriptor* known = FindInferOutput(output.name());
    if (known == nullptr) {
      return FieldError(field, Quoted(output.name()),
                        absl::StrCat("one of ", ListInferOutputs()));
    }
    if (std::find(form.outputs.begin(), form.outputs.end(), known) !=
        form.outputs.end()) {
      return FieldError(field, known->name(), "each output once");
    }
    for (const auto& [key, value] : output.parameters()) {
      // KServe's client may ask for what it gets in any case.
      if (key == "binary_data" && value.bool_param()) continue;
      return FieldError(
          absl::StrCat(known->name(), ".parameters.", FieldPart(key)),
          DescribeParameter(value),
          "no parameter: outputs are raw, and come in the message");
    }
    form.outputs.push_back(known);
    call.add_outputs(OutputOfField(*known));
  }
  if (form.outputs.empty()) form.outputs.push_back(FindInferOutput("output"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InferCall> TranslateInferMessage(InferMessage message,
                                                const BookBytes& book,
                                                FieldNames& names) {
  const inference::ModelInferRequest& request = message.request;
  auto model = FindInferModel(request.model_name(), request.model_version());
  if (!model.ok()) return model.status();
  InferCall call;
  call.form.model = *model;
  call.form.id = request.id();
  call.request.set_request_id(request.id());
  names.Add("request_id", "id");
  InferParameters parameters(request.parameters(), names);
  absl::Status status = parameters.Apply(**model, call.request);
  if (status.ok()) status = ReadOutputs(request, call.request, call.form);
  if (!status.ok()) return status;
  call.timeout = parameters.timeout();
  TensorPlacer placer(book, **model, names);
  status = placer.Read(message);
  if (!status.ok()) return status;
  auto tensors = placer.Place(parameters.member(), parameters.member_path());
  if (!tensors.ok()) return tensors.status();
  call.tensors = *std::move(tensors);
  const auto inputs = std::count_if(
      call.tensors.tensors.begin(), call.tensors.tensors.end(),
      [](const WireTensor& tensor) { return tensor.field == kInputsField; });
  auto layers =
      TakeLayerReferencesOf(call.request, static_cast<size_t>(inputs));
  if (!layers.ok()) return names.Rename(layers.status());
  call.tensors.layer_refs = *std::move(layers);
  return call;
}

}  // namespace attn
