#include "tests/server/inference/infer_requests.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "proto/codec/attend_codec.h"
#include "tests/testing/variants/random_variant.h"
#include "tests/testing/variants/variant_run.h"

namespace attn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string ToJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  EXPECT_TRUE(
      google::protobuf::util::MessageToJsonString(message, &json, options)
          .ok());
  return json;
}

// The JSON of one field's value.
std::string ToJson(const Message& message, const FieldDescriptor& field) {
  const std::unique_ptr<Message> alone(message.New());
  alone->CopyFrom(message);
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* other : set) {
    if (other != &field) alone->GetReflection()->ClearField(alone.get(), other);
  }
  const std::string json = ToJson(*alone);
  const size_t begin = json.find(':') + 1;
  return json.substr(begin, json.size() - 1 - begin);
}

const char* DatatypeOfWire(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_F32:
      return "FP32";
    case v1::DATA_TYPE_F16:
      return "FP16";
    case v1::DATA_TYPE_BF16:
      return "BF16";
    case v1::DATA_TYPE_F64:
      return "FP64";
    case v1::DATA_TYPE_BOOL:
      return "BOOL";
    case v1::DATA_TYPE_I8:
      return "INT8";
    case v1::DATA_TYPE_I32:
      return "INT32";
    default:
      return "INT64";
  }
}

template <typename T, typename Add>
void AddEach(const std::string& data, const Add& add) {
  for (size_t at = 0; at < data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    add(value);
  }
}

void SetContents(const v1::Tensor& tensor, oip::InferTensorContents& contents) {
  const std::string& data = tensor.data();
  switch (tensor.dtype()) {
    case v1::DATA_TYPE_F32:
      return AddEach<float>(data,
                            [&](float x) { contents.add_fp32_contents(x); });
    case v1::DATA_TYPE_F64:
      return AddEach<double>(data,
                             [&](double x) { contents.add_fp64_contents(x); });
    case v1::DATA_TYPE_BOOL:
      return AddEach<uint8_t>(
          data, [&](uint8_t x) { contents.add_bool_contents(x != 0); });
    case v1::DATA_TYPE_I8:
      return AddEach<int8_t>(data,
                             [&](int8_t x) { contents.add_int_contents(x); });
    case v1::DATA_TYPE_I32:
      return AddEach<int32_t>(data,
                              [&](int32_t x) { contents.add_int_contents(x); });
    case v1::DATA_TYPE_I64:
      return AddEach<int64_t>(
          data, [&](int64_t x) { contents.add_int64_contents(x); });
    default:
      ADD_FAILURE() << "no typed contents";
  }
}

bool HasTypedContents(const v1::AttendRequest& request) {
  const auto has = [](const v1::Tensor& tensor) {
    return tensor.dtype() != v1::DATA_TYPE_F16 &&
           tensor.dtype() != v1::DATA_TYPE_BF16;
  };
  for (const v1::Tensor& input : request.inputs()) {
    if (!has(input)) return false;
  }
  return has(request.q());
}

// Turns one AttendRequest into the protocol's terms.
class Translator {
 public:
  Translator(const InferModel& model, const v1::AttendRequest& request,
             ContentForm form)
      : model_(model),
        request_(request),
        raw_(form == ContentForm::kRaw || !HasTypedContents(request)) {}

  oip::ModelInferRequest Translate() {
    infer_.set_model_name(model_.name);
    v1::AttentionSpec spec = request_.spec();
    if (model_.member != nullptr) {
      AddFields(*TakeMember(spec), "");
    }
    const std::string json = ToJson(spec);
    if (json != "{}") Parameter("spec").set_string_param(json);
    AddTensor("q", request_.q());
    AddTensor("k", request_.k());
    AddTensor("v", request_.v());
    int others = 0;
    for (int i = 0; i < request_.inputs_size(); ++i) {
      const auto named = names_.find(i);
      AddTensor(named != names_.end() ? named->second
                                      : absl::StrCat("inputs[", others++, "]"),
                request_.inputs(i));
    }
    AddLengths();
    return std::move(infer_);
  }

 private:
  oip::InferParameter& Parameter(const std::string& name) {
    return (*infer_.mutable_parameters())[name];
  }

  // The member leaves the spec.
  std::unique_ptr<Message> TakeMember(v1::AttentionSpec& spec) {
    const Reflection& reflection = *spec.GetReflection();
    const Message& holder =
        model_.stage->is_repeated()
            ? reflection.GetRepeatedMessage(spec, model_.stage, 0)
            : reflection.GetMessage(spec, model_.stage);
    const Message& member =
        holder.GetReflection()->GetMessage(holder, model_.member);
    std::unique_ptr<Message> taken(member.New());
    taken->CopyFrom(member);
    reflection.ClearField(&spec, model_.stage);
    return taken;
  }

  void AddFields(const Message& message, const std::string& prefix) {
    std::vector<const FieldDescriptor*> set;
    message.GetReflection()->ListFields(message, &set);
    for (const FieldDescriptor* field : set) {
      AddField(message, *field, prefix + field->name());
    }
  }

  void AddField(const Message& message, const FieldDescriptor& field,
                const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    if (field.is_repeated()) {
      Parameter(path).set_string_param(ToJson(message, field));
      return;
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return AddPart(reflection.GetMessage(message, &field), path);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Parameter(path).set_bool_param(
            reflection.GetBool(message, &field));
      case FieldDescriptor::CPPTYPE_INT64:
        return Parameter(path).set_int64_param(
            reflection.GetInt64(message, &field));
      case FieldDescriptor::CPPTYPE_UINT64:
        return Parameter(path).set_uint64_param(
            reflection.GetUInt64(message, &field));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Parameter(path).set_double_param(
            reflection.GetDouble(message, &field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return Parameter(path).set_string_param(
            reflection.GetEnum(message, &field)->name());
      case FieldDescriptor::CPPTYPE_STRING:
        return Parameter(path).set_string_param(
            reflection.GetString(message, &field));
      default:
        ADD_FAILURE() << path;
    }
  }

  void AddPart(const Message& part, const std::string& path) {
    if (part.GetDescriptor() != v1::TensorRef::descriptor()) {
      return AddFields(part, path + ".");
    }
    for (const MemberTensor& tensor : model_.tensors) {
      if (tensor.path != path) continue;
      const auto& ref = static_cast<const v1::TensorRef&>(part);
      names_[static_cast<int>(ref.input())] = tensor.input;
    }
  }

  void AddTensor(const std::string& name, const v1::Tensor& tensor) {
    auto& input = *infer_.add_inputs();
    input.set_name(name);
    input.set_datatype(DatatypeOfWire(tensor.dtype()));
    *input.mutable_shape() = tensor.shape();
    if (raw_) {
      infer_.add_raw_input_contents(tensor.data());
    } else {
      SetContents(tensor, *input.mutable_contents());
    }
  }

  void AddLengths() {
    for (const char* name : {"q_lengths", "kv_lengths"}) {
      const auto* field =
          v1::AttendRequest::descriptor()->FindFieldByName(name);
      if (request_.GetReflection()->FieldSize(request_, field) == 0) continue;
      Parameter(name).set_string_param(ToJson(request_, *field));
    }
  }

  const InferModel& model_;
  const v1::AttendRequest& request_;
  const bool raw_;
  oip::ModelInferRequest infer_;
  // Of the inputs that the member points to.
  std::map<int, std::string> names_;
};

// The table's stage of a model: "mask" of "mask_causal".
std::string StageOf(const InferModel& model) {
  return model.name.substr(0,
                           model.name.size() - 1 - model.member->name().size());
}

oracle::VariantCase RandomCaseOf(const InferModel& model, uint64_t seed,
                                 DType dtype) {
  oracle::Random random(seed);
  if (model.member == nullptr) return oracle::RandomVariant(random, dtype);
  oracle::VariantCase call;
  call.shape = {.batch = 2,
                .q_heads = 2,
                .kv_heads = 1,
                .q_length = 3,
                .kv_length = 5,
                .q_dim = 4,
                .k_dim = 4,
                .v_dim = 6};
  const oracle::MemberGenerator* generator =
      oracle::FindGenerator(StageOf(model), model.member->name());
  EXPECT_NE(generator, nullptr) << model.name;
  if (generator == nullptr) return call;
  if (generator->fit != nullptr) generator->fit(call.shape);
  oracle::FillTensors(random, call, dtype);
  generator->add(random, call);
  return call;
}

}  // namespace

v1::AttendRequest RandomCallOf(const InferModel& model, uint64_t seed,
                               DType dtype) {
  const oracle::VariantCase call = RandomCaseOf(model, seed, dtype);
  testing::VariantRun run(call, dtype);
  AttendMessage message;
  message.spec = call.spec;
  message.args = run.args();
  std::string bytes;
  for (const WireChunk& chunk : EncodeAttendRequest(message)) {
    bytes += chunk.bytes;
    if (chunk.borrowed == nullptr) continue;
    bytes.append(reinterpret_cast<const char*>(chunk.borrowed),
                 chunk.borrowed_size);
  }
  v1::AttendRequest request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  return request;
}

oip::ModelInferRequest InferRequestOf(const InferModel& model,
                                      const v1::AttendRequest& request,
                                      ContentForm form) {
  return Translator(model, request, form).Translate();
}

void AddFloats(oip::ModelInferRequest& request, const std::string& name,
               const std::vector<int64_t>& shape,
               const std::vector<float>& values) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype("FP32");
  input.mutable_shape()->Add(shape.begin(), shape.end());
  request.add_raw_input_contents(
      std::string(reinterpret_cast<const char*>(values.data()),
                  values.size() * sizeof(float)));
}

oip::ModelInferRequest PlainRequest(const std::string& model) {
  constexpr int kElements = 24;
  oip::ModelInferRequest request;
  request.set_model_name(model);
  float value = 0;
  for (const char* name : {"q", "k", "v"}) {
    std::vector<float> values;
    for (int i = 0; i < kElements; ++i) values.push_back(value += 0.125F);
    AddFloats(request, name, {1, 2, 3, 4}, values);
  }
  return request;
}

}  // namespace attn
