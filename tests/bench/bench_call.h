// A call of the engine in process, as peers/shapes.csv describes it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "tests/bench/bench_shape.h"
#include "tests/bench/huge_buffer.h"

namespace attn {

// Owns tensors, plan and outputs. Not thread-safe.
class BenchCall {
 public:
  // `dtype` is one of shapes.csv. `kernel`: by name, or empty for the plan's
  // choice. `engine` must outlive the call.
  static absl::StatusOr<std::unique_ptr<BenchCall>> Create(
      Engine& engine, const BenchShape& shape, const std::string& dtype,
      const std::string& kernel);

  // Dies if the call fails: a fault of the benchmark's.
  void Run();

  const Plan& plan() const { return *plan_; }

 private:
  BenchCall(Engine& engine, const BenchShape& shape)
      : engine_(engine), shape_(shape) {}

  absl::Status FillInputs(DType dtype, DType kv_dtype);
  absl::Status MakePlan(DType dtype, const std::string& kernel);
  absl::Status PlanGradients();
  absl::Status SetMode();
  TensorView Normal(DType dtype, const Shape& shape);
  TensorView Filled(float value, const Shape& shape);
  MutableTensorView Empty(DType dtype, const Shape& shape);
  bool backward() const { return shape_.mode == "backward"; }

  Engine& engine_;
  const BenchShape shape_;
  std::deque<HugeBuffer> memory_;
  AttentionSpec spec_;
  AttentionArgs args_;
  OutputSelection wanted_;
  std::shared_ptr<const Plan> plan_;
  AttentionOutputs outputs_;
  OutputGradients cotangents_;
  InputGradients gradients_;
};

}  // namespace attn
