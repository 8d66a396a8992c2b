// A line of peers/shapes.csv: a shape that peers are measured on too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"

namespace attn {

// A value; thread-compatible.
struct BenchShape {
  std::string name;
  AttentionShape shape;
  // "none", "causal", ...: shapes.csv says what they mean.
  std::string mode;
  std::vector<std::string> dtypes;

  // Of the sequences; empty but for "pad" and "ragged".
  std::vector<int64_t> Lengths() const;
};

// INVALID_ARGUMENT names the line that is not one of shapes.csv.
absl::StatusOr<std::vector<BenchShape>> ReadBenchShapes(
    const std::string& path);

}  // namespace attn
