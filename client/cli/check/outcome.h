// What comes of one case.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/io/tensor_file.h"

namespace attn {

// What the service gave, under the names of the case's outputs. Every output
// of the case is here, but for those that only later calls can give.
struct Outcome {
  TensorMap got;
  // Those of them that travel in single precision even in a double call: row
  // statistics.
  std::set<std::string> single_precision;
};

// The status of a case that the wire cannot say. `what` is what it cannot say:
// "normalizer entmax", "sink logits".
absl::Status Skip(absl::string_view what);

// The reason of a Skip(); empty for any other status.
std::string SkipReason(const absl::Status& status);

}  // namespace attn
