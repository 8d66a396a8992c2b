#include "engine/plan/plan.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"
#include "engine/kernels/backward.h"
#include "engine/kernels/pipeline.h"
#include "engine/plan/cost.h"
#include "engine/plan/cpu_class.h"
#include "engine/plan/kernel_choice.h"
#include "engine/projections/head_inputs.h"
#include "engine/projections/projected_backward.h"
#include "engine/projections/projected_execution.h"
#include "engine/projections/projection_cost.h"

namespace attn {
namespace {

using Kernels = std::vector<const Kernel*>;

std::vector<KernelVerdict> AskKernels(const Kernels& kernels,
                                      const Problem& problem) {
  std::vector<KernelVerdict> verdicts;
  for (const Kernel* kernel : kernels) {
    verdicts.push_back({kernel->name(), kernel->WhyNot(problem)});
  }
  return verdicts;
}

std::string KernelNames(const Kernels& kernels) {
  return absl::StrJoin(kernels, ", ",
                       [](std::string* out, const Kernel* kernel) {
                         absl::StrAppend(out, kernel->name());
                       });
}

absl::StatusOr<const Kernel*> ChooseNamed(
    const Kernels& kernels, const Problem& problem,
    const std::vector<KernelVerdict>& verdicts) {
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].kernel != problem.kernel) continue;
    if (verdicts[i].why_not.empty()) return kernels[i];
    return FieldError("kernel", problem.kernel,
                      absl::StrCat("a kernel that supports the call (",
                                   verdicts[i].why_not, ")"));
  }
  return FieldError("kernel", problem.kernel,
                    absl::StrCat("one of ", KernelNames(kernels)));
}

absl::StatusOr<const Kernel*> Choose(
    const Kernels& kernels, const Problem& problem,
    const std::vector<KernelVerdict>& verdicts) {
  if (!problem.kernel.empty()) return ChooseNamed(kernels, problem, verdicts);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].why_not.empty()) return kernels[i];
  }
  return absl::UnimplementedError(absl::StrCat(
      "no kernel computes this: ",
      absl::StrJoin(verdicts, "; ", [](std::string* out, const auto& verdict) {
        absl::StrAppend(out, verdict.kernel, ": ", verdict.why_not);
      })));
}

absl::StatusOr<std::shared_ptr<Plan>> PlanHeads(const Problem& problem) {
  if (absl::Status status = ValidateStages(problem); !status.ok()) {
    return status;
  }
  if (absl::Status status = ValidateGradients(problem); !status.ok()) {
    return status;
  }
  auto plan = std::make_shared<Plan>();
  plan->problem = problem;
  const Kernels kernels = KernelsInOrder(problem, DetectCpuClass());
  plan->verdicts = AskKernels(kernels, problem);
  const absl::StatusOr<const Kernel*> kernel =
      Choose(kernels, problem, plan->verdicts);
  if (!kernel.ok()) return kernel.status();
  plan->kernel = (*kernel)->name();
  plan->pipeline = DescribeStages(problem);
  plan->effective_scale = EffectiveScale(problem);
  const ComputeCost cost = CostOf(problem);
  plan->flops = cost.flops;
  plan->work = cost.work;
  plan->tensor_bytes = TensorBytes(problem);
  plan->execution = (*kernel)->Prepare(problem);
  return plan;
}

// The plan of the heads, with the steps before and after.
absl::StatusOr<std::shared_ptr<const Plan>> MakeProjectedPlan(
    const Problem& problem) {
  auto plan = PlanHeads(HeadProblem(problem));
  if (!plan.ok()) return plan.status();
  Plan& result = **plan;
  result.problem = problem;
  result.pipeline = DescribeProjections(problem, result.pipeline);
  const double projections = ProjectionFlops(problem);
  result.flops += projections;
  result.work += projections;
  result.tensor_bytes += ProjectedTensorBytes(problem);
  result.execution =
      MakeProjectedExecution(problem, std::move(result.execution));
  return std::shared_ptr<const Plan>(*std::move(plan));
}

// The same of a backward call; the way forth over the heads is a plan of its
// own where their outputs are needed.
absl::StatusOr<std::shared_ptr<const Plan>> MakeProjectedBackwardPlan(
    const Problem& problem) {
  auto plan = PlanHeads(BackwardHeadProblem(problem));
  if (!plan.ok()) return plan.status();
  Plan& result = **plan;
  std::unique_ptr<const Execution> forward;
  if (NeedsHeadOutputs(problem)) {
    auto heads = PlanHeads(ForwardHeadProblem(problem));
    if (!heads.ok()) return heads.status();
    forward = std::move((*heads)->execution);
    result.flops += (*heads)->flops;
    result.work += (*heads)->work;
  }
  result.problem = problem;
  result.pipeline = DescribeProjections(problem, result.pipeline);
  const double projections = ProjectionFlops(problem);
  result.flops += projections;
  result.work += projections;
  result.tensor_bytes = TensorBytes(problem) + ProjectedTensorBytes(problem);
  result.execution = MakeProjectedBackward(problem, std::move(forward),
                                           std::move(result.execution));
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace

int64_t Plan::tile_jobs() const {
  int64_t jobs = 0;
  for (int phase = 0; phase < execution->phase_count(); ++phase) {
    jobs += execution->job_count(phase);
  }
  return jobs;
}

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const Problem& problem) {
  if (NeedsProjection(problem)) {
    return problem.gradients.any() ? MakeProjectedBackwardPlan(problem)
                                   : MakeProjectedPlan(problem);
  }
  auto plan = PlanHeads(problem);
  if (!plan.ok()) return plan.status();
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace attn
