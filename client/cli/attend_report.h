// What `attn attend` says about a result.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/compare.h"
#include "client/cli/heat_map.h"
#include "client/library/host_tensor.h"
#include "nlohmann/json.hpp"
#include "proto/codec/attend_codec.h"

namespace attn {

// One expected tensor beside what came.
struct NamedComparison {
  std::string name;
  Comparison comparison;
};

// Shape, mean, least, greatest and first values of one tensor, in two lines.
std::string DescribeTensor(const std::string& name, const HostTensor& tensor);

// Dtype, shape, mean, least and greatest value as JSON.
nlohmann::json SummaryToJson(const HostTensor& tensor);

// Kernel, pipeline, timings, and what was noticed, warnings among it.
std::string DescribeReport(const v1::CallReport& report);

// One line for each head, and one for the evidence of each dead one. `tokens`
// name the keys; may be empty.
std::string DescribeHeads(
    const google::protobuf::RepeatedPtrField<v1::HeadStatistics>& heads,
    const std::vector<std::string>& tokens);

// Which head to draw.
struct HeadChoice {
  int64_t batch = 0;
  int64_t head = 0;
};

// Final logits beside weights. INVALID_ARGUMENT for a head that is not there.
absl::StatusOr<std::string> DrawHead(const AttendResult& result,
                                     const HeadChoice& choice,
                                     const std::vector<std::string>& tokens,
                                     const HeatMapOptions& options);

std::string DescribeComparison(const NamedComparison& named);

// The same as one JSON document.
nlohmann::json AttendToJson(const AttendResult& result,
                            const std::vector<NamedComparison>& comparisons);

}  // namespace attn
