// Steps that follow each other as phases of a call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace attn {

// `rounds` times `steps` steps; one in each phase, so that a late call can be
// cancelled between any two, or several where there would be more phases than
// kMaxPhases: a pool's list of phases stays small. Thread-safe: const.
class StepPhases {
 public:
  static constexpr int64_t kMaxPhases = 1 << 14;

  StepPhases(int64_t rounds, int64_t steps)
      : steps_(steps),
        total_(rounds * steps),
        in_phase_(
            std::max<int64_t>((total_ + kMaxPhases - 1) / kMaxPhases, 1)) {}

  int count() const {
    return static_cast<int>((total_ + in_phase_ - 1) / in_phase_);
  }
  // Calls run(round, step) for every step of a phase.
  template <typename Run>
  void ForEach(int phase, const Run& run) const {
    const int64_t begin = phase * in_phase_;
    const int64_t end = std::min(begin + in_phase_, total_);
    for (int64_t i = begin; i < end; ++i) run(i / steps_, i % steps_);
  }

 private:
  int64_t steps_;
  int64_t total_;
  int64_t in_phase_;
};

}  // namespace attn
