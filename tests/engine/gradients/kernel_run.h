// A backward call run through one kernel, without the engine's choice.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/gradients.h"
#include "engine/engine.h"
#include "engine/kernels/kernel.h"

namespace attn::testing {

// Tensors are borrowed. Thread-compatible.
struct BackwardCall {
  AttentionSpec spec;
  AttentionArgs args;
  OutputGradients cotangents;
  GradientSelection wanted;
};

// Gradients as doubles, whatever type they came in; of inputs that are not
// wanted nothing.
struct KernelGradients {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<std::vector<double>> inputs;
  ScalarGradients numbers;
  std::vector<RowStatistics> rows;
  int64_t nonfinite_outputs = 0;
};

// The kernels of the table that support the call; a call that is refused has
// none.
std::vector<const Kernel*> KernelsOf(const BackwardCall& call);

// Runs the jobs of each phase one after the other, the last one first, in
// scratch memory of NaN.
KernelGradients RunKernel(const Kernel& kernel, const BackwardCall& call);

// The same numbers in F32: all float tensors of an F64 call.
class NarrowCall {
 public:
  explicit NarrowCall(const BackwardCall& call);

  const BackwardCall& call() const { return call_; }

 private:
  TensorView Narrow(const TensorView& tensor);

  std::vector<std::vector<float>> tensors_;
  BackwardCall call_;
};

}  // namespace attn::testing
