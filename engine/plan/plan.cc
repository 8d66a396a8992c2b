#include "engine/plan/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"
#include "engine/kernels/pipeline.h"
#include "engine/plan/cost.h"

namespace attn {
namespace {

std::vector<KernelVerdict> AskKernels(const Problem& problem) {
  std::vector<KernelVerdict> verdicts;
  for (const Kernel* kernel : KernelTable()) {
    verdicts.push_back({kernel->name(), kernel->WhyNot(problem)});
  }
  return verdicts;
}

std::string KernelNames() {
  return absl::StrJoin(KernelTable(), ", ",
                       [](std::string* out, const Kernel* kernel) {
                         absl::StrAppend(out, kernel->name());
                       });
}

absl::StatusOr<const Kernel*> ChooseNamed(
    const Problem& problem, const std::vector<KernelVerdict>& verdicts) {
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].kernel != problem.kernel) continue;
    if (verdicts[i].why_not.empty()) return KernelTable()[i];
    return FieldError("kernel", problem.kernel,
                      absl::StrCat("a kernel that supports the call (",
                                   verdicts[i].why_not, ")"));
  }
  return FieldError("kernel", problem.kernel,
                    absl::StrCat("one of ", KernelNames()));
}

absl::StatusOr<const Kernel*> Choose(
    const Problem& problem, const std::vector<KernelVerdict>& verdicts) {
  if (!problem.kernel.empty()) return ChooseNamed(problem, verdicts);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].why_not.empty()) return KernelTable()[i];
  }
  return absl::UnimplementedError(absl::StrCat(
      "no kernel computes this: ",
      absl::StrJoin(verdicts, "; ", [](std::string* out, const auto& verdict) {
        absl::StrAppend(out, verdict.kernel, ": ", verdict.why_not);
      })));
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
  if (absl::Status status = ValidateStages(problem); !status.ok()) {
    return status;
  }
  auto plan = std::make_shared<Plan>();
  plan->problem = problem;
  plan->verdicts = AskKernels(problem);
  const absl::StatusOr<const Kernel*> kernel = Choose(problem, plan->verdicts);
  if (!kernel.ok()) return kernel.status();
  plan->kernel = (*kernel)->name();
  plan->pipeline = DescribeStages(problem);
  plan->effective_scale = EffectiveScale(problem);
  plan->flops = Flops(problem);
  plan->tensor_bytes = TensorBytes(problem);
  plan->execution = (*kernel)->Prepare(problem);
  return plan;
}

}  // namespace attn
