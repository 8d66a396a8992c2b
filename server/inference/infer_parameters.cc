#include "server/inference/infer_parameters.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"
#include "proto/codec/spec_codec.h"
#include "server/inference/datatype.h"
#include "server/inference/parameter_value.h"
#include "server/inference/quoted.h"

namespace attn {
namespace {

using google::protobuf::Message;
using inference::InferParameter;

// Fields of an AttendRequest that are parameters of every model.
constexpr const char* kCallParameters[] = {"q_lengths", "kv_lengths",
                                           "q_offsets", "kv_offsets",
                                           "kernel",    "packed_kv_heads"};
// What every model takes besides.
constexpr const char* kCommonParameters[] = {
    "spec",         "scale",       "softcap",      "temperature",
    "causal",       "window_left", "window_right", "alignment",
    "output_dtype", "priority",    "timeout"};

std::string PathOfMask(const v1::AttentionSpec& spec, const char* member) {
  return absl::StrCat("spec.masks[", spec.masks_size() - 1, "].", member);
}

// The path of a member's field that a parameter or an input names.
std::string PathOf(const InferModel& model, const std::string& name) {
  for (const MemberTensor& tensor : model.tensors) {
    if (tensor.input == name) return tensor.path;
  }
  return name;
}

}  // namespace

std::string ParameterField(absl::string_view name) {
  return absl::StrCat("parameters.", FieldPart(name));
}

absl::Status InferParameters::Apply(const InferModel& model,
                                    v1::AttendRequest& request) {
  v1::AttentionSpec& spec = *request.mutable_spec();
  if (const auto json = Take("spec")) {
    const std::string field = ParameterField("spec");
    auto text = AsText(*json, field);
    if (!text.ok()) return text.status();
    absl::Status parsed = ParseJson(*text, field, spec);
    if (!parsed.ok()) return parsed;
  }
  // Of the member and of the masks that stand beside it.
  const auto aligned = values_.find("alignment");
  std::optional<InferParameter> alignment;
  if (aligned != values_.end()) alignment = aligned->second;
  absl::Status status = ApplyMember(model, spec);
  if (status.ok()) status = ApplyScores(spec);
  if (status.ok()) status = ApplyMasks(alignment, spec);
  if (status.ok()) status = ApplyCall(request);
  if (status.ok()) status = ApplySchedule(request);
  if (status.ok()) status = RefuseOthers(model);
  return status;
}

absl::Status InferParameters::ApplyMember(const InferModel& model,
                                          v1::AttentionSpec& spec) {
  if (model.member == nullptr) return absl::OkStatus();
  member_ = model.AddMember(spec, &member_path_);
  if (member_ == nullptr) {
    return FieldError(ParameterField("spec"),
                      absl::StrCat("a ", model.stage->name(), " of its own"),
                      absl::StrCat("none: model ", model.name, " sets it"));
  }
  names_.Add(member_path_, "parameters");
  for (auto it = values_.begin(); it != values_.end();) {
    const std::string& name = it->first;
    const std::string path = PathOf(model, name);
    auto set = SetField(*member_, path, it->second, ParameterField(name));
    if (!set.ok()) return set.status();
    if (!*set) {
      ++it;
      continue;
    }
    names_.Add(absl::StrCat(member_path_, ".", path), ParameterField(name));
    it = values_.erase(it);
  }
  return absl::OkStatus();
}

absl::Status InferParameters::ApplyScores(v1::AttentionSpec& spec) {
  if (values_.contains("scale")) {
    const v1::Score& score = spec.score();
    if (spec.has_score() && !score.has_dot()) {
      return FieldError(ParameterField("scale"), "the scale of a dot score",
                        "nothing: the spec has another score");
    }
    absl::Status status =
        TakeInto("scale", "scale", *spec.mutable_score()->mutable_dot(),
                 "spec.score.dot");
    if (!status.ok()) return status;
  }
  if (const auto temperature = Take("temperature")) {
    const std::string field = ParameterField("temperature");
    auto number = AsDouble(*temperature, field);
    if (!number.ok()) return number.status();
    if (spec.temperatures_size() > 0) {
      return FieldError(field, DescribeParameter(*temperature),
                        "nothing: the spec has temperatures");
    }
    spec.add_temperatures(*number);
    names_.Add("spec.temperatures[0]", field);
  }
  return TakeInto("softcap", "softcap", spec, "spec");
}

absl::Status InferParameters::ApplyMasks(
    const std::optional<InferParameter>& alignment, v1::AttentionSpec& spec) {
  std::vector<std::pair<Message*, std::string>> masks;
  if (const auto causal = Take("causal")) {
    auto wanted = AsBool(*causal, ParameterField("causal"));
    if (!wanted.ok()) return wanted.status();
    if (*wanted) {
      Message* mask = spec.add_masks()->mutable_causal();
      masks.emplace_back(mask, PathOfMask(spec, "causal"));
    }
  }
  if (values_.contains("window_left") || values_.contains("window_right")) {
    Message* mask = spec.add_masks()->mutable_window();
    const std::string where = PathOfMask(spec, "window");
    masks.emplace_back(mask, where);
    for (const char* side : {"left", "right"}) {
      absl::Status status =
          TakeInto(absl::StrCat("window_", side), side, *mask, where);
      if (!status.ok()) return status;
    }
  }
  const std::string field = ParameterField("alignment");
  for (const auto& [mask, where] : masks) {
    names_.Add(absl::StrCat(where, ".alignment"), field);
    if (!alignment.has_value()) continue;
    auto set = SetField(*mask, "alignment", *alignment, field);
    if (!set.ok()) return set.status();
  }
  if (!Take("alignment").has_value() || !masks.empty()) return absl::OkStatus();
  return FieldError(field, DescribeParameter(*alignment),
                    "nothing without causal, window_left or window_right");
}

absl::Status InferParameters::ApplyCall(v1::AttendRequest& request) {
  for (const char* name : kCallParameters) {
    absl::Status status = TakeInto(name, name, request, "");
    if (!status.ok()) return status;
  }
  if (const auto dtype = Take("output_dtype")) {
    const std::string field = ParameterField("output_dtype");
    auto text = AsText(*dtype, field);
    if (!text.ok()) return text.status();
    auto parsed = ParseDatatype(*text, field);
    if (!parsed.ok()) return parsed.status();
    request.set_output_dtype(EncodeDType(*parsed));
    names_.Add("output_dtype", field);
  }
  return absl::OkStatus();
}

absl::Status InferParameters::ApplySchedule(v1::AttendRequest& request) {
  // Of Triton's schedule policy: 0 is the default, 1 the highest.
  if (const auto priority = Take("priority")) {
    const std::string field = ParameterField("priority");
    auto level = AsInt64(*priority, field);
    if (!level.ok()) return level.status();
    if (*level < v1::PRIORITY_UNSPECIFIED || *level > v1::PRIORITY_LOW) {
      return FieldError(field, absl::StrCat(*level),
                        "0 (default), 1 (high), 2 (normal) or 3 (low)");
    }
    request.set_priority(static_cast<v1::Priority>(*level));
  }
  if (const auto timeout = Take("timeout")) {
    const std::string field = ParameterField("timeout");
    auto microseconds = AsInt64(*timeout, field);
    if (!microseconds.ok()) return microseconds.status();
    if (*microseconds < 0) {
      return FieldError(field, absl::StrCat(*microseconds),
                        "microseconds; 0: none");
    }
    if (*microseconds > 0) timeout_ = absl::Microseconds(*microseconds);
  }
  return absl::OkStatus();
}

absl::Status InferParameters::RefuseOthers(const InferModel& model) const {
  if (values_.empty()) return absl::OkStatus();
  const auto& [name, value] = *values_.begin();
  const std::string got = absl::StrCat("a parameter that there is not (",
                                       DescribeParameter(value), ")");
  if (absl::StartsWith(name, "sequence_")) {
    return FieldError(ParameterField(name), got,
                      "none: calls are stateless, there are no sequences");
  }
  std::vector<std::string> known(std::begin(kCommonParameters),
                                 std::end(kCommonParameters));
  known.insert(known.end(), std::begin(kCallParameters),
               std::end(kCallParameters));
  for (int i = 0;
       member_ != nullptr && i < member_->GetDescriptor()->field_count(); ++i) {
    known.push_back(member_->GetDescriptor()->field(i)->name());
  }
  return FieldError(ParameterField(name), got,
                    absl::StrCat("one of model ", model.name, ": ",
                                 absl::StrJoin(known, ", ")));
}

std::optional<InferParameter> InferParameters::Take(const std::string& name) {
  auto node = values_.extract(name);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

absl::Status InferParameters::TakeInto(const std::string& name,
                                       const std::string& path,
                                       Message& message,
                                       const std::string& where) {
  const auto value = Take(name);
  if (!value.has_value()) return absl::OkStatus();
  names_.Add(where.empty() ? path : absl::StrCat(where, ".", path),
             ParameterField(name));
  return SetField(message, path, *value, ParameterField(name)).status();
}

}  // namespace attn
