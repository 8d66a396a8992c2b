// Where the jobs of a backward call add up what they share: the gradients of
// the call's parameters and of the spec's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/gradient_sink.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/stage_records.h"

namespace attn {

// `slots` buffers in the call's scratch, each with room for every parameter. A
// job owns one of them; which planes (a KV head of a batch entry) add to which
// slot, and in which order, follows from the shape alone: plane p belongs to
// slot p % slots, and a slot's planes come one after the other. At the end the
// slots are added in order, so that bits do not depend on threads. There are
// as many slots as planes, but fewer where their memory would exceed kMaxBytes;
// never none. Thread-safe: const; slots are disjoint.
class GradientBuffers {
 public:
  // `slot_extra_bytes`: what else the kernel keeps for each slot. With several
  // `lanes` each stands for a plane of its own: plane p is lane p % lanes.
  GradientBuffers(const Problem& problem, size_t slot_extra_bytes,
                  int64_t lanes = 1);

  int64_t slots() const { return slots_; }
  int64_t planes() const { return planes_; }
  // How many planes a slot has, at the most: one after the other.
  int64_t rounds() const { return (planes_ + slots_ - 1) / slots_; }
  size_t bytes() const;

  // `memory` is 64-byte aligned and has bytes().
  void Clear(std::byte* memory, int64_t slot) const;
  GradientSink SinkOf(std::byte* memory, int64_t slot) const;
  void Add(std::byte* memory, int64_t slot, int64_t head,
           const StageGradients& stages) const;

  // Adds the slots up, a part in each of merge_jobs() jobs, into the call's
  // gradients.
  int64_t merge_jobs() const;
  void Merge(const KernelCall& call, const std::byte* memory,
             int64_t job) const;

 private:
  // Of the slots together.
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  // Elements that one job merges.
  static constexpr int64_t kMergeElements = 16384;
  static constexpr int64_t kNotWanted = -1;

  double* SlotAt(std::byte* memory, int64_t slot) const;
  double Sum(const std::byte* memory, int64_t element) const;
  void MergeNumbers(const KernelCall& call, const std::byte* memory) const;

  // First element of each input in a slot; those of the numbers come last.
  std::vector<int64_t> offsets_;
  std::vector<int64_t> counts_;
  int64_t parameters_ = 0;
  int64_t temperatures_ = 0;
  int64_t slot_elements_ = 0;
  int64_t planes_ = 0;
  int64_t slots_ = 1;
};

}  // namespace attn
