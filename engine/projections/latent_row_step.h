// What the steps of latent attention share: token rows, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "engine/projections/latent_step.h"
#include "engine/projections/step.h"

namespace attn {

// Visits every row of the queries, then every row of the keys, some in a job.
// T: what rows in scratch are of; Part: the type of a job's own part of a row,
// [turning()]. Thread-safe: const.
template <typename T, typename Part>
class LatentRowStep : public ProjectionStep {
 public:
  explicit LatentRowStep(const Problem& problem)
      : shape_(problem.shape),
        plain_(problem.spec.projections->latent->plain_dim),
        turning_(*problem.spec.projections->latent->rotary.rotary_dim),
        rotary_(MakeLatentRotary(problem)) {}

  int64_t job_count() const final {
    return shape_.batch * (Blocks(shape_.q_length) + Blocks(shape_.kv_length));
  }
  size_t worker_scratch_bytes() const final {
    return Arena::Padded(static_cast<size_t>(turning_) * sizeof(Part));
  }
  void RunJob(const KernelCall& call, int64_t job, Arena& arena) const final {
    Part* part = arena.Allocate<Part>(static_cast<size_t>(turning_));
    const int64_t query_jobs = shape_.batch * Blocks(shape_.q_length);
    const bool query = job < query_jobs;
    const int64_t length = query ? shape_.q_length : shape_.kv_length;
    const int64_t index = query ? job : job - query_jobs;
    const int64_t batch = index / Blocks(length);
    const int64_t begin = index % Blocks(length) * kRows;
    const int64_t end = std::min(begin + kRows, length);
    for (int64_t row = begin; row < end; ++row) {
      if (query) {
        VisitQuery(call, batch, row, part);
      } else {
        VisitKey(call, batch, row, part);
      }
    }
  }

 protected:
  virtual void VisitQuery(const KernelCall& call, int64_t batch, int64_t row,
                          Part* part) const = 0;
  virtual void VisitKey(const KernelCall& call, int64_t batch, int64_t row,
                        Part* part) const = 0;

  static T* RowOf(const KernelCall& call, const RowSource& rows, int64_t batch,
                  int64_t row) {
    return reinterpret_cast<T*>(call.scratch + rows.offset) +
           batch * rows.batch_stride + row * rows.row_stride;
  }
  const AttentionShape& shape() const { return shape_; }
  // Elements of a head's query and key without a position, and with one.
  int64_t plain() const { return plain_; }
  int64_t turning() const { return turning_; }
  const Transform& rotary() const { return *rotary_; }

 private:
  static constexpr int64_t kRows = 64;
  static int64_t Blocks(int64_t length) { return BlockCount(length, kRows); }

  AttentionShape shape_;
  int64_t plain_;
  int64_t turning_;
  std::unique_ptr<const Transform> rotary_;
};

}  // namespace attn
