// A mixed load from a file: what --profile reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/call_class.h"

namespace attn {

// Each class keeps histograms of its own, at every step.
inline constexpr size_t kMostClasses = 16;

// A JSON list of classes:
//
//   [{"name": "tiny", "weight": 8, "shape": [1, 4, 4, 16, 16, 32]},
//    {"name": "look", "kind": "inspect", "shape": [1, 8, 8, 64, 64, 64],
//     "views": ["weights"], "causal": true, "priority": "low"}]
//
// client/load/README.md lists the fields. Errors begin with `name`, that of the
// file, and say which field of which class is wrong; an unknown field is.
// `seed` is that of the tensors, and differs from class to class.
absl::StatusOr<std::vector<CallClass>> ParseMixProfile(const std::string& text,
                                                       const std::string& name,
                                                       uint64_t seed);

}  // namespace attn
