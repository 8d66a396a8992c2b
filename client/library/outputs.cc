#include "client/library/outputs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// A large tensor of its own, or one of the row statistics.
struct NamedOutput {
  const char* name;
  bool WantedOutputs::*wanted;
  int field;  // In AttendResponse; 0: a row statistic.
  const v1::Tensor& (v1::RowStatistics::*statistic)() const;
};

constexpr NamedOutput kOutputs[] = {
    {"output", &WantedOutputs::output, v1::AttendResponse::kOutputFieldNumber,
     nullptr},
    {"lse", &WantedOutputs::lse, v1::AttendResponse::kLseFieldNumber, nullptr},
    {"logits", &WantedOutputs::logits, v1::AttendResponse::kLogitsFieldNumber,
     nullptr},
    {"masked_logits", &WantedOutputs::masked_logits,
     v1::AttendResponse::kMaskedLogitsFieldNumber, nullptr},
    {"weights", &WantedOutputs::weights,
     v1::AttendResponse::kWeightsFieldNumber, nullptr},
    {"lse_with_sink", &WantedOutputs::lse_with_sink,
     v1::AttendResponse::kLseWithSinkFieldNumber, nullptr},
    {"dropout_keep", &WantedOutputs::dropout_keep,
     v1::AttendResponse::kDropoutKeepFieldNumber, nullptr},
    {"state", &WantedOutputs::state, v1::AttendResponse::kStateFieldNumber,
     nullptr},
    {"head_output", &WantedOutputs::head_output,
     v1::AttendResponse::kHeadOutputFieldNumber, nullptr},
    {"entropy", &WantedOutputs::row_statistics, 0, &v1::RowStatistics::entropy},
    {"peak_weight", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::peak_weight},
    {"top_key", &WantedOutputs::row_statistics, 0, &v1::RowStatistics::top_key},
    {"visible_keys", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::visible_keys},
    {"entropy_ratio", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::entropy_ratio},
    {"effective_keys", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::effective_keys},
    {"logit_min", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::logit_min},
    {"logit_max", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::logit_max},
    {"logit_mean", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::logit_mean},
    {"logit_std", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::logit_std},
    {"contribution", &WantedOutputs::row_statistics, 0,
     &v1::RowStatistics::contribution},
};

struct GroupRow {
  const char* name;
  bool WantedOutputs::*wanted;
};

constexpr GroupRow kGroups[] = {
    {"row_statistics", &WantedOutputs::row_statistics},
    {"head_statistics", &WantedOutputs::head_statistics},
};

}  // namespace

std::vector<std::string> OutputNames() {
  std::vector<std::string> names;
  for (const NamedOutput& row : kOutputs) names.emplace_back(row.name);
  return names;
}

absl::Status Want(const std::string& name, WantedOutputs& wanted) {
  for (const NamedOutput& row : kOutputs) {
    if (name != row.name) continue;
    wanted.*row.wanted = true;
    return absl::OkStatus();
  }
  for (const GroupRow& row : kGroups) {
    if (name != row.name) continue;
    wanted.*row.wanted = true;
    return absl::OkStatus();
  }
  return FieldError("outputs", absl::StrCat("\"", name, "\""),
                    absl::StrCat(absl::StrJoin(OutputNames(), ", "),
                                 ", row_statistics, head_statistics"));
}

absl::StatusOr<HostTensor> OutputOf(const AttendResult& result,
                                    const std::string& name) {
  for (const NamedOutput& row : kOutputs) {
    if (name != row.name) continue;
    if (row.field == 0) {
      if (!result.header.has_row_statistics()) break;
      return HostTensor::Copy(
          (result.header.row_statistics().*row.statistic)());
    }
    const ResponseTensor* tensor = result.Find(row.field);
    if (tensor == nullptr) break;
    return HostTensor::Copy(
        TensorView::Dense(tensor->data.data(), tensor->dtype, tensor->shape));
  }
  return absl::NotFoundError(
      absl::StrCat("the response has no ", name, "; ask for it"));
}

}  // namespace attn
