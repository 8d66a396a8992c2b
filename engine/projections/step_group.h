// Steps that run side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/projections/step.h"

namespace attn {

// One phase of a call: the jobs of its steps, one step's after the other's.
// Thread-safe once filled: const.
class StepGroup {
 public:
  void Add(std::unique_ptr<const ProjectionStep> step) {
    steps_.push_back(std::move(step));
  }
  bool empty() const { return steps_.empty(); }

  int64_t job_count() const {
    int64_t jobs = 0;
    for (const auto& step : steps_) jobs += step->job_count();
    return jobs;
  }
  size_t worker_scratch_bytes() const {
    size_t bytes = 0;
    for (const auto& step : steps_) {
      bytes = std::max(bytes, step->worker_scratch_bytes());
    }
    return bytes;
  }
  void RunJob(const KernelCall& call, int64_t job, Arena& arena) const {
    for (const auto& step : steps_) {
      if (job < step->job_count()) {
        step->RunJob(call, job, arena);
        return;
      }
      job -= step->job_count();
    }
  }

 private:
  std::vector<std::unique_ptr<const ProjectionStep>> steps_;
};

}  // namespace attn
