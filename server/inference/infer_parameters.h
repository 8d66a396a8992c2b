// The parameters of a ModelInferRequest, as fields of an AttendRequest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"
#include "google/protobuf/message.h"
#include "inference/open_inference.pb.h"
#include "proto/codec/schema.h"
#include "server/inference/field_names.h"
#include "server/inference/infer_model.h"

namespace attn {

// What errors call a parameter: "parameters.<name>".
std::string ParameterField(absl::string_view name);

// Each parameter is used once or refused: none is passed over.
// Thread-compatible.
class InferParameters {
 public:
  using Values = google::protobuf::Map<std::string, inference::InferParameter>;

  // `names`, which must outlive this, learns what is set.
  InferParameters(const Values& values, FieldNames& names)
      : values_(values.begin(), values.end()), names_(names) {}

  // Fills `request`, whose spec has the model's member then. INVALID_ARGUMENT
  // names the parameter. Once.
  absl::Status Apply(const InferModel& model, v1::AttendRequest& request);

  // In the request. Null: the model has none.
  google::protobuf::Message* member() const { return member_; }
  // "spec.masks[0].causal"
  const std::string& member_path() const { return member_path_; }
  // How long the call may take.
  absl::Duration timeout() const { return timeout_; }

 private:
  absl::Status ApplyMember(const InferModel& model, v1::AttentionSpec& spec);
  absl::Status ApplyScores(v1::AttentionSpec& spec);
  absl::Status ApplyMasks(
      const std::optional<inference::InferParameter>& alignment,
      v1::AttentionSpec& spec);
  absl::Status ApplyCall(v1::AttendRequest& request);
  absl::Status ApplySchedule(v1::AttendRequest& request);
  absl::Status RefuseOthers(const InferModel& model) const;

  std::optional<inference::InferParameter> Take(const std::string& name);
  // Takes a parameter, if there is one, into the field `path` of the message
  // that the request has at `where`.
  absl::Status TakeInto(const std::string& name, const std::string& path,
                        google::protobuf::Message& message,
                        const std::string& where);

  std::map<std::string, inference::InferParameter> values_;
  FieldNames& names_;
  google::protobuf::Message* member_ = nullptr;
  std::string member_path_;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

}  // namespace attn
