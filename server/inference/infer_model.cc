#include "server/inference/infer_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "server/inference/quoted.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kAttention[] = "attention";
constexpr char kPlatform[] = "attn";

// Stages, as ListStages() names them, and their fields of an AttentionSpec.
struct StageRow {
  const char* stage;
  int field;
};
constexpr StageRow kStages[] = {
    {"score", v1::AttentionSpec::kScoreFieldNumber},
    {"transform", v1::AttentionSpec::kTransformsFieldNumber},
    {"bias", v1::AttentionSpec::kBiasesFieldNumber},
    {"mask", v1::AttentionSpec::kMasksFieldNumber},
    {"sparsifier", v1::AttentionSpec::kSparsifiersFieldNumber},
    {"normalizer", v1::AttentionSpec::kNormalizerFieldNumber},
};

// The tensors that a member cannot do without: its field's path, and what a
// call may bring.
struct NeededTensor {
  const char* model;
  const char* path;
  const char* datatype;
  std::vector<int64_t> shape;
};

const std::vector<NeededTensor>& NeededTensors() {
  static const auto& kNeeded = *new std::vector<NeededTensor>{
      {"score_bilinear", "weight", "FP32", {-1, -1}},
      {"score_additive", "v", "FP32", {-1}},
      {"score_concat", "weight", "FP32", {-1, -1}},
      {"score_concat", "v", "FP32", {-1}},
      {"score_trilinear", "weight", "FP32", {-1}},
      {"bias_dense", "tensor", "FP32", {-1, -1, -1, -1}},
      {"bias_relative_table", "table", "FP32", {-1, -1}},
      {"bias_t5", "table", "FP32", {-1, -1}},
      {"bias_continuous_position", "hidden_weight", "FP32", {2, -1}},
      {"bias_continuous_position", "hidden_bias", "FP32", {-1}},
      {"bias_continuous_position", "output_weight", "FP32", {-1, -1}},
      {"bias_constant", "values", "FP32", {-1}},
      {"mask_dense", "tensor", "BOOL", {-1, -1, -1, -1}},
      {"mask_segment", "q_segments", "INT64", {-1, -1}},
      {"mask_segment", "kv_segments", "INT64", {-1, -1}},
      {"mask_block_sparse", "layout", "BOOL", {-1, -1}},
      {"normalizer_local", "weight", "FP32", {-1, -1}},
      {"normalizer_local", "v", "FP32", {-1}},
  };
  return kNeeded;
}

std::string InputNameOf(const std::string& stage, const std::string& member,
                        const std::string& path) {
  if (path == "tensor") return stage;
  for (const char* taken : {"q", "k", "v"}) {
    if (path == taken) return absl::StrCat(member, ".", path);
  }
  return path;
}

// The TensorRefs of a member, those of its parts too. Repeated ones have no
// name of their own.
void AddTensors(const Descriptor& type, const std::string& stage,
                const std::string& member, const std::string& prefix,
                std::vector<MemberTensor>& tensors) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || field.message_type() == nullptr) continue;
    const std::string path = absl::StrCat(prefix, field.name());
    if (field.message_type() == v1::TensorRef::descriptor()) {
      tensors.push_back(
          {.path = path, .input = InputNameOf(stage, member, path)});
    } else {
      AddTensors(*field.message_type(), stage, member, absl::StrCat(path, "."),
                 tensors);
    }
  }
}

// The oneof's field of that name, in the message of the stage.
const FieldDescriptor* MemberOf(const FieldDescriptor& stage,
                                const std::string& member) {
  return stage.message_type()->FindFieldByName(member);
}

void MarkNeeded(InferModel& model) {
  for (const NeededTensor& needed : NeededTensors()) {
    if (model.name != needed.model) continue;
    for (MemberTensor& tensor : model.tensors) {
      if (tensor.path != needed.path) continue;
      tensor.datatype = needed.datatype;
      tensor.shape = needed.shape;
    }
  }
}

void AddModels(const StageInfo& stage, std::vector<InferModel>& models) {
  const auto* row =
      std::find_if(std::begin(kStages), std::end(kStages),
                   [&](const StageRow& r) { return stage.stage == r.stage; });
  if (row == std::end(kStages)) return;
  const FieldDescriptor* field =
      v1::AttentionSpec::descriptor()->FindFieldByNumber(row->field);
  for (const MemberInfo& member : stage.members) {
    InferModel model;
    model.name = absl::StrCat(stage.stage, "_", member.name);
    model.stage = field;
    model.member = MemberOf(*field, member.name);
    if (model.member == nullptr) continue;
    AddTensors(*model.member->message_type(), stage.stage, member.name, "",
               model.tensors);
    MarkNeeded(model);
    models.push_back(std::move(model));
  }
}

using TensorMetadata = inference::ModelMetadataResponse::TensorMetadata;

void Fill(TensorMetadata& tensor, absl::string_view name,
          absl::string_view datatype, absl::Span<const int64_t> shape) {
  tensor.set_name(std::string(name));
  tensor.set_datatype(std::string(datatype));
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
}

bool IsLinear(const InferModel& model) {
  return model.member != nullptr &&
         model.member->message_type() == v1::LinearNormalizer::descriptor();
}

// Whether a call of the model can have the output. No model has dropout.
bool MayHave(const InferModel& model, const FieldDescriptor& output) {
  switch (output.number()) {
    case v1::AttendResponse::kOutputFieldNumber:
    case v1::AttendResponse::kHeadOutputFieldNumber:
      return true;
    case v1::AttendResponse::kStateFieldNumber:
      return IsLinear(model);
    case v1::AttendResponse::kDropoutKeepFieldNumber:
      return false;
    default:
      return !IsLinear(model);
  }
}

int RankOf(const FieldDescriptor& output) {
  constexpr int kRows = 3;
  constexpr int kOthers = 4;
  const bool rows =
      output.number() == v1::AttendResponse::kLseFieldNumber ||
      output.number() == v1::AttendResponse::kLseWithSinkFieldNumber;
  return rows ? kRows : kOthers;
}

// Those of AttendResponse that are tensors.
std::vector<const FieldDescriptor*> Outputs() {
  std::vector<const FieldDescriptor*> outputs;
  const Descriptor& type = *v1::AttendResponse::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->message_type() == v1::Tensor::descriptor()) {
      outputs.push_back(type.field(i));
    }
  }
  return outputs;
}

}  // namespace

Message* InferModel::AddMember(v1::AttentionSpec& spec,
                               std::string* path) const {
  const google::protobuf::Reflection& reflection = *spec.GetReflection();
  Message* holder = nullptr;
  if (stage->is_repeated()) {
    *path = absl::StrCat("spec.", stage->name(), "[",
                         reflection.FieldSize(spec, stage), "]");
    holder = reflection.AddMessage(&spec, stage);
  } else {
    if (reflection.HasField(spec, stage)) return nullptr;
    *path = absl::StrCat("spec.", stage->name());
    holder = reflection.MutableMessage(&spec, stage);
  }
  absl::StrAppend(path, ".", member->name());
  return holder->GetReflection()->MutableMessage(holder, member);
}

const std::vector<InferModel>& InferModels() {
  static const auto& kModels = *[] {
    auto* models = new std::vector<InferModel>(1);
    models->front().name = kAttention;
    for (const StageInfo& stage : ListStages()) AddModels(stage, *models);
    return models;
  }();
  return kModels;
}

absl::StatusOr<const InferModel*> FindInferModel(absl::string_view name,
                                                 absl::string_view version) {
  for (const InferModel& model : InferModels()) {
    if (model.name != name) continue;
    if (version.empty() || version == kInferModelVersion) return &model;
    return absl::NotFoundError(
        absl::StrCat("no version ", Quoted(version), " of model ", Quoted(name),
                     "; each has version ", kInferModelVersion, " alone"));
  }
  return absl::NotFoundError(
      absl::StrCat("no model ", Quoted(name),
                   "; RepositoryIndex lists those of this server"));
}

inference::ModelMetadataResponse DescribeModel(const InferModel& model) {
  constexpr int64_t kAny[] = {-1, -1, -1, -1};
  inference::ModelMetadataResponse response;
  response.set_name(model.name);
  response.add_versions(std::string(kInferModelVersion));
  response.set_platform(kPlatform);
  for (const char* name : {"q", "k", "v"}) {
    Fill(*response.add_inputs(), name, "FP32", kAny);
  }
  for (const MemberTensor& tensor : model.tensors) {
    if (!tensor.needed()) continue;
    Fill(*response.add_inputs(), tensor.input, tensor.datatype, tensor.shape);
  }
  for (const FieldDescriptor* output : Outputs()) {
    if (!MayHave(model, *output)) continue;
    Fill(*response.add_outputs(), output->name(), "FP32",
         absl::MakeSpan(kAny).first(static_cast<size_t>(RankOf(*output))));
  }
  return response;
}

const FieldDescriptor* FindInferOutput(absl::string_view name) {
  for (const FieldDescriptor* output : Outputs()) {
    if (output->name() == name) return output;
  }
  return nullptr;
}

std::string ListInferOutputs() {
  std::string names;
  for (const FieldDescriptor* output : Outputs()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", output->name());
  }
  return names;
}

v1::Output OutputOfField(const FieldDescriptor& field) {
  v1::Output output = v1::OUTPUT_UNSPECIFIED;
  v1::Output_Parse(absl::StrCat("OUTPUT_", absl::AsciiStrToUpper(field.name())),
                   &output);
  return output;
}

}  // namespace attn
