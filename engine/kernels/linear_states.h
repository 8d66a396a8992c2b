// The states of linear attention that the way back needs, kept at intervals.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/attention_args.h"
#include "engine/kernels/linear_rule.h"

namespace attn {

// A sequence is cut into segments of about the square root of its length. The
// state at the start of each is kept, and the states within one segment, formed
// again when the way back comes to it: memory for twice the square root of the
// length in states, and one more pass forward. Thread-safe: const.
class LinearStates {
 public:
  explicit LinearStates(const AttentionShape& shape);

  // Keys of a segment, and segments.
  int64_t segment_keys() const { return segment_keys_; }
  int64_t segments() const { return segments_; }
  // Of one sequence; a multiple of 64.
  size_t bytes() const;

  // State before segment `segment`; segments(): the last state.
  LinearState Checkpoint(std::byte* memory, int64_t segment) const;
  // State after the segment's key `index`.
  LinearState After(std::byte* memory, int64_t index) const;
  LinearState Gradient(std::byte* memory) const;

  void Clear(const LinearState& state) const;
  void Copy(const LinearState& from, const LinearState& to) const;

 private:
  LinearState At(std::byte* memory, int64_t index) const;

  int64_t s_elements_;
  int64_t sum_elements_;
  int64_t segment_keys_;
  int64_t segments_;
};

}  // namespace attn
