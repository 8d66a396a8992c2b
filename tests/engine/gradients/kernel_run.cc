#include "tests/engine/gradients/kernel_run.h"

#include <algorithm>
#include <limits>

#include "engine/core/aligned_buffer.h"
#include "engine/core/backward_problem.h"
#include "engine/runtime/arena.h"
#include "engine/tile/convert.h"
#include "gtest/gtest.h"

namespace attn::testing {
namespace {

// Room for a gradient of one type.
class Room {
 public:
  Room(const TensorView& tensor, DType dtype)
      : count_(tensor.shape.element_count()),
        bytes_(static_cast<size_t>(count_) * SizeOf(dtype)),
        view_(MutableTensorView::Dense(bytes_.data(), dtype, tensor.shape)) {
    std::fill_n(bytes_.data(), bytes_.size(), std::byte{0x55});
  }

  const MutableTensorView& view() const { return view_; }
  std::vector<double> Values() const {
    std::vector<double> values(static_cast<size_t>(count_));
    LoadElements(bytes_.data(), view_.dtype, 1, count_, values.data());
    return values;
  }

 private:
  int64_t count_;
  AlignedBuffer bytes_;
  MutableTensorView view_;
};

void FillWithNaN(std::byte* memory, size_t bytes) {
  std::fill_n(reinterpret_cast<float*>(memory), bytes / sizeof(float),
              std::numeric_limits<float>::quiet_NaN());
}

void RunPhases(const Execution& execution, const KernelCall& call) {
  const size_t bytes = execution.worker_scratch_bytes();
  Arena arena;
  for (int phase = 0; phase < execution.phase_count(); ++phase) {
    for (int64_t job = execution.job_count(phase) - 1; job >= 0; --job) {
      arena.Reserve(bytes);
      FillWithNaN(arena.Allocate<std::byte>(bytes), bytes);
      arena.Reset();
      execution.RunJob(call, phase, job, arena);
    }
  }
}

}  // namespace

std::vector<const Kernel*> KernelsOf(const BackwardCall& call) {
  std::vector<const Kernel*> kernels;
  const auto problem =
      MakeBackwardProblem(call.spec, call.args, call.cotangents, call.wanted);
  if (!problem.ok()) return kernels;
  for (const Kernel* kernel : BackwardKernelTable()) {
    if (kernel->WhyNot(*problem).empty()) kernels.push_back(kernel);
  }
  return kernels;
}

KernelGradients RunKernel(const Kernel& kernel, const BackwardCall& call) {
  KernelGradients result;
  const auto problem =
      MakeBackwardProblem(call.spec, call.args, call.cotangents, call.wanted);
  EXPECT_TRUE(problem.ok()) << problem.status();
  if (!problem.ok()) return result;
  const auto execution = kernel.Prepare(*problem);
  const DType dtype =
      call.args.q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Room q(call.args.q, dtype);
  const Room k(call.args.k, dtype);
  const Room v(call.args.v, dtype);
  std::vector<Room> inputs;
  inputs.reserve(call.wanted.inputs.size());
  AlignedBuffer scratch(execution->call_scratch_bytes());
  FillWithNaN(scratch.data(), scratch.size());
  const AttentionShape& shape = problem->shape;
  result.rows.resize(
      static_cast<size_t>(shape.batch * shape.q_heads * shape.q_length));
  CallCounters counters;
  KernelCall run;
  run.problem = &*problem;
  run.args = &call.args;
  run.row_statistics = result.rows.data();
  run.scratch = scratch.data();
  run.counters = &counters;
  run.cotangents = call.cotangents;
  run.gradients = {q.view(), k.view(), v.view(), {}};
  run.gradients.inputs.resize(call.args.inputs.size());
  for (const uint32_t input : call.wanted.inputs) {
    inputs.emplace_back(call.args.inputs[input], dtype);
    run.gradients.inputs[input] = inputs.back().view();
  }
  run.scalar_gradients = &result.numbers;
  const auto state = execution->Begin(run);
  run.state = state.get();
  RunPhases(*execution, run);
  result.q = q.Values();
  result.k = k.Values();
  result.v = v.Values();
  for (const Room& input : inputs) result.inputs.push_back(input.Values());
  result.nonfinite_outputs = counters.nonfinite_outputs.load();
  return result;
}

NarrowCall::NarrowCall(const BackwardCall& call) : call_(call) {
  for (TensorView* tensor : {&call_.args.q, &call_.args.k, &call_.args.v,
                             &call_.cotangents.output, &call_.cotangents.lse}) {
    *tensor = Narrow(*tensor);
  }
  for (TensorView& input : call_.args.inputs) input = Narrow(input);
}

TensorView NarrowCall::Narrow(const TensorView& tensor) {
  if (tensor.data == nullptr || tensor.dtype != DType::kF64) return tensor;
  const int64_t count = tensor.shape.element_count();
  std::vector<float> values(static_cast<size_t>(count));
  LoadElements(tensor.data, tensor.dtype, 1, count, values.data());
  tensors_.push_back(std::move(values));
  return TensorView::Dense(tensors_.back().data(), DType::kF32, tensor.shape);
}

}  // namespace attn::testing
