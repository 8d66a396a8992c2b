// The models of the Open Inference Protocol: variants of attention.
//
// `attention` is any of them, as its parameters say. Each member of each stage
// of the pipeline has a model of its own, "<stage>_<member>": `mask_causal`,
// `bias_alibi`, `score_additive`. Its spec begins with that member; parameters
// set the member's fields and add what else the pipeline has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "inference/open_inference.pb.h"
#include "proto/codec/schema.h"

namespace attn {

inline constexpr char kInferModelVersion[] = "1";

// A tensor that a member points to.
struct MemberTensor {
  // The names of the fields down to the TensorRef: "learned_scale.log_scale".
  std::string path;
  // What the input is called: the same, but "bias" or "mask" where the field is
  // called "tensor", and "local.v" where it would be taken for q, k or v.
  std::string input;
  // Of those that the member cannot do without; the others have none.
  std::string datatype = {};
  std::vector<int64_t> shape = {};

  bool needed() const { return !datatype.empty(); }
};

// A value, of a table that lives as long as the process. Thread-safe.
struct InferModel {
  std::string name;
  // The field of an AttentionSpec, and the field of its message's oneof. Null:
  // the model has no member.
  const google::protobuf::FieldDescriptor* stage = nullptr;
  const google::protobuf::FieldDescriptor* member = nullptr;
  std::vector<MemberTensor> tensors;

  // Adds the member to `spec`. Returns it, and its path:
  // "spec.masks[0].causal". Null: there is another that it cannot stand beside.
  google::protobuf::Message* AddMember(v1::AttentionSpec& spec,
                                       std::string* path) const;
};

// `attention` first, then the members in the order of the pipeline's tables.
const std::vector<InferModel>& InferModels();

// NOT_FOUND names the model, or the version, and says how to list them. An
// empty version is any.
absl::StatusOr<const InferModel*> FindInferModel(absl::string_view name,
                                                 absl::string_view version);

// Its inputs are those that every call needs.
inference::ModelMetadataResponse DescribeModel(const InferModel& model);

// The output of that name; null: there is none. It is a field of
// AttendResponse.
const google::protobuf::FieldDescriptor* FindInferOutput(
    absl::string_view name);
// "output, lse, logits, ..."
std::string ListInferOutputs();
// What an AttendRequest asks for it by.
v1::Output OutputOfField(const google::protobuf::FieldDescriptor& field);

}  // namespace attn
