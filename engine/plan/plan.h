// A plan: which kernel computes a problem, why not the others, what it costs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/problem.h"
#include "engine/kernels/kernel.h"

namespace attn {

// What a kernel said of a problem.
struct KernelVerdict {
  std::string kernel;
  // Empty: supported.
  std::string why_not;
};

// Immutable; shared by every call of its problem. Thread-safe.
struct Plan {
  Problem problem;
  std::string kernel;
  // In the order in which the kernels were asked.
  std::vector<KernelVerdict> verdicts;
  // DescribeStages() and EffectiveScale() of the problem, for those who may
  // not look into the kernels' room.
  std::string pipeline;
  double effective_scale = 1;
  // Multiply and add count as two; only the visible part of the scores.
  double flops = 0;
  // How long it may take, in the same unit: pairs of little width, and heads of
  // none, are work too.
  double work = 0;
  // Bytes of the tensors that are read and written.
  int64_t tensor_bytes = 0;
  std::unique_ptr<const Execution> execution;

  int64_t tile_jobs() const;
};

// Takes the first kernel that supports the problem, in the order that
// KernelsInOrder() gives for this machine (or the one it names). Fails with
// UNIMPLEMENTED and every kernel's reason if none does, with INVALID_ARGUMENT
// "kernel" if the named one does not exist or not support it.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const Problem& problem);

}  // namespace attn
