// Calls with projections, and their definition in double.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/testing/oracle.h"

namespace attn::testing {

// Row-major numbers.
struct Numbers {
  Shape shape;
  std::vector<double> values;
};

// Between -1 and 1, on a grid that every float type here holds.
Numbers SomeNumbers(const Shape& shape, uint32_t seed);

// x [B, S, in] through weight [out, in] and bias [out].
Numbers Through(const Numbers& x, const Numbers& weight, const Numbers* bias);
// [B, S, H * d] to [B, H, S, d] and back.
Numbers ByHead(const Numbers& rows, int64_t heads);
Numbers Joined(const Numbers& heads);
// Elements [from, from + width) of the last axis.
Numbers Columns(const Numbers& x, int64_t from, int64_t width);
// x / sqrt(mean(x^2) + eps) * gain for each row.
Numbers RmsNormed(const Numbers& x, const Numbers& gain, double eps);
// softmax(q k^T / sqrt(d)) v by tests/testing/oracle.
Numbers Attended(const Numbers& q, const Numbers& k, const Numbers& v,
                 bool causal);

// A call whose tensors are all of one type. Thread-compatible.
class ProjectionCall {
 public:
  explicit ProjectionCall(DType dtype) : dtype_(dtype) {}

  AttentionSpec& spec() { return spec_; }
  ProjectionSpec& projections() {
    if (!spec_.projections.has_value()) spec_.projections.emplace();
    return *spec_.projections;
  }
  AttentionArgs& args() { return args_; }
  const AttentionSpec& spec() const { return spec_; }

  TensorView Store(const Numbers& numbers);
  uint32_t AddInput(const Numbers& numbers);
  LinearLayer AddLayer(const Numbers& weight, const Numbers* bias);

  absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(
      Engine& engine, bool head_output = false) const;
  // The output; `head_output` too if it is not null.
  Numbers Run(int workers = 1, Numbers* head_output = nullptr) const;
  // What a run of one worker reports.
  CallReport Report(const OutputSelection& selection, DType output_dtype) const;
  std::vector<double> Output(int workers = 1) const {
    return Run(workers).values;
  }

 private:
  DType dtype_;
  AttentionSpec spec_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> storage_;
};

// The largest difference, infinite if the shapes differ or one is NaN.
double Distance(const Numbers& a, const Numbers& b);

}  // namespace attn::testing
