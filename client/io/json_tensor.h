// Tensors as JSON: {"dtype": "F32", "shape": [2, 3], "data": [...]}. `data` is
// flat, or nested as the shape; "inf", "-inf" and "nan" are strings.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/io/tensor_file.h"
#include "nlohmann/json.hpp"

namespace attn {

// A document that is one tensor (named ""), or an object of tensors. Members
// that are no tensors ({"tokens": [...]}) are passed over. `name` begins every
// error.
absl::StatusOr<TensorMap> ParseJsonTensors(const std::string& text,
                                           const std::string& name,
                                           const ReadOptions& options = {});

// Parses strictly: a key that comes twice is an error.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text,
                                         const std::string& name);

absl::StatusOr<HostTensor> TensorFromJson(const nlohmann::json& json);
nlohmann::json TensorToJson(const HostTensor& tensor);

// A number, or one of the three strings.
nlohmann::json NumberToJson(double value);
absl::StatusOr<double> NumberFromJson(const nlohmann::json& json);

}  // namespace attn
