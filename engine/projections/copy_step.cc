#include "engine/projections/copy_step.h"

#include <algorithm>

#include "engine/kernels/head_rows.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr int64_t kRows = 64;

// Jobs of [batch, head, rows].
class HeadBlocks {
 public:
  HeadBlocks(int64_t batch, int64_t heads, int64_t length)
      : batch_(batch), heads_(heads), length_(length) {}

  int64_t count() const { return batch_ * heads_ * blocks(); }
  int64_t batch(int64_t job) const { return job / blocks() / heads_; }
  int64_t head(int64_t job) const { return job / blocks() % heads_; }
  int64_t row(int64_t job) const { return job % blocks() * kRows; }
  int64_t rows(int64_t job) const {
    return std::min(kRows, length_ - row(job));
  }

 private:
  int64_t blocks() const { return BlockCount(length_, kRows); }

  int64_t batch_;
  int64_t heads_;
  int64_t length_;
};

template <typename T>
class WidenStep final : public ProjectionStep {
 public:
  WidenStep(const RowSource& source, const RowSource& target)
      : source_(source),
        target_(target),
        blocks_(target.shape[0], target.shape[1], target.shape[2]) {}

  int64_t job_count() const override { return blocks_.count(); }
  size_t worker_scratch_bytes() const override { return 0; }
  void RunJob(const KernelCall& call, int64_t job,
              Arena& /*arena*/) const override {
    const int64_t batch = blocks_.batch(job);
    const int64_t head = blocks_.head(job);
    const int64_t row = blocks_.row(job);
    const HeadRows rows = PaddedRows(source_.View(call), batch, head);
    T* to = reinterpret_cast<T*>(call.scratch + target_.offset) +
            batch * target_.batch_stride + head * target_.head_stride +
            row * target_.row_stride;
    for (int64_t r = 0; r < blocks_.rows(job); ++r) {
      rows.Load(row + r, 1, to + r * target_.row_stride);
    }
  }

 private:
  RowSource source_;
  RowSource target_;
  HeadBlocks blocks_;
};

template <typename T>
class HeadOutputStep final : public ProjectionStep {
 public:
  HeadOutputStep(const Problem& problem, const RowSource& heads)
      : heads_(heads),
        output_too_(!problem.spec.projections.has_value() ||
                    !problem.spec.projections->output.has_value()),
        blocks_(heads.shape[0], heads.shape[1], heads.shape[2]) {}

  int64_t job_count() const override { return blocks_.count(); }
  size_t worker_scratch_bytes() const override {
    return 2 * Arena::Padded(static_cast<size_t>(heads_.shape[3]) * sizeof(T));
  }
  void RunJob(const KernelCall& call, int64_t job,
              Arena& arena) const override {
    const int64_t batch = blocks_.batch(job);
    const int64_t head = blocks_.head(job);
    const HeadRows rows = PaddedRows(heads_.View(call), batch, head);
    const auto width = static_cast<size_t>(heads_.shape[3]);
    T* values = arena.Allocate<T>(width);
    T* rounded = arena.Allocate<T>(width);
    // An output layer counts its own.
    const bool count_heads = !call.outputs.output.wanted();
    const bool count_output = !count_heads && output_too_;
    int64_t overflows = 0;
    for (int64_t r = 0; r < blocks_.rows(job); ++r) {
      const int64_t row = blocks_.row(job) + r;
      rows.Load(row, 1, values);
      const At at = {batch, head, row};
      Put(call.outputs.head_output, at, values);
      if (output_too_) Put(call.outputs.output, at, values);
      if (count_heads) {
        overflows += Overflows(call.outputs.head_output, at, values, rounded);
      }
      if (count_output) {
        overflows += Overflows(call.outputs.output, at, values, rounded);
      }
    }
    call.counters->nonfinite_outputs.fetch_add(overflows,
                                               std::memory_order_relaxed);
  }

 private:
  struct At {
    int64_t batch;
    int64_t head;
    int64_t row;
  };
  static std::byte* RowOf(const MutableTensorView& tensor, const At& at) {
    const auto size = static_cast<int64_t>(SizeOf(tensor.dtype));
    return tensor.data +
           size * (at.batch * tensor.strides[0] + at.head * tensor.strides[1] +
                   at.row * tensor.strides[2]);
  }
  void Put(const MutableTensorView& tensor, const At& at,
           const T* values) const {
    if (!tensor.wanted()) return;
    const auto size = static_cast<int64_t>(SizeOf(tensor.dtype));
    std::byte* to = RowOf(tensor, at);
    for (int64_t i = 0; i < heads_.shape[3]; ++i) {
      StoreElements(values + i, 1, tensor.dtype, to);
      to += size * tensor.strides[3];
    }
  }
  // What Put() made infinite. What was so before, the heads have counted.
  int64_t Overflows(const MutableTensorView& tensor, const At& at,
                    const T* values, T* rounded) const {
    const int64_t width = heads_.shape[3];
    LoadElements(RowOf(tensor, at), tensor.dtype, tensor.strides[3], width,
                 rounded);
    return CountNonFinite(rounded, width) - CountNonFinite(values, width);
  }

  RowSource heads_;
  bool output_too_;
  HeadBlocks blocks_;
};

}  // namespace

std::unique_ptr<const ProjectionStep> MakeWidenStep(const Problem& problem,
                                                    const RowSource& source,
                                                    const RowSource& target) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<WidenStep<double>>(source, target);
  }
  return std::make_unique<WidenStep<float>>(source, target);
}

std::unique_ptr<const ProjectionStep> MakeHeadOutputStep(
    const Problem& problem, const RowSource& heads) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<HeadOutputStep<double>>(problem, heads);
  }
  return std::make_unique<HeadOutputStep<float>>(problem, heads);
}

}  // namespace attn
