#include "engine/projections/weight_gradient_step.h"

#include <algorithm>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/projections/result_gradient.h"

namespace attn {
namespace {

// Of the sums that one job adds, and of the rows that it takes at a time.
constexpr int64_t kOut = 64;
constexpr int64_t kIn = 256;
constexpr int64_t kRows = 128;

template <typename T>
size_t Bytes(int64_t count) {
  return Arena::Padded(static_cast<size_t>(count) * sizeof(T));
}

// Calls run(batch, row, rows) along a segment, in order: at most kRows rows of
// one batch entry at a time.
template <typename Run>
void ForEachRows(const RowSegment& segment, int64_t length, const Run& run) {
  int64_t at = segment.begin;
  while (at < segment.end) {
    const int64_t row = at % length;
    const int64_t rows = std::min({kRows, length - row, segment.end - at});
    run(at / length, row, rows);
    at += rows;
  }
}

// A job's block of the sums, and its memory.
template <typename T>
struct SumBlock {
  int64_t out = 0;
  int64_t outs = 0;
  int64_t in = 0;
  int64_t ins = 0;
  T* gradient = nullptr;   // [rows, outs]
  T* rows = nullptr;       // [rows, ins]
  T* turned = nullptr;     // [outs, rows]
  T* product = nullptr;    // [outs, ins]
  double* sums = nullptr;  // [outs, ins]
};

// sums += transpose(gradient) * rows.
void AddRows(int64_t rows, const SumBlock<double>& block) {
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = block.rows + r * block.ins;
    for (int64_t o = 0; o < block.outs; ++o) {
      const double factor = block.gradient[r * block.outs + o];
      double* to = block.sums + o * block.ins;
      for (int64_t i = 0; i < block.ins; ++i) to[i] += factor * from[i];
    }
  }
}
void AddRows(int64_t rows, const SumBlock<float>& block) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < block.outs; ++o) {
      block.turned[o * rows + r] = block.gradient[r * block.outs + o];
    }
  }
  Multiply({block.outs, block.ins, rows}, {block.turned, rows},
           {block.rows, block.ins}, /*accumulate=*/false,
           {block.product, block.ins});
  for (int64_t i = 0; i < block.outs * block.ins; ++i) {
    block.sums[i] += static_cast<double>(block.product[i]);
  }
}

template <typename T>
class WeightGradientStep final : public ProjectionStep {
 public:
  WeightGradientStep(const Problem& problem,
                     const WeightGradientOptions& options,
                     const RowSegment& segment)
      : options_(options),
        gradient_(problem, options.gradient),
        length_(CountRows(problem, options.gradient).length),
        segment_(segment) {}

  int64_t job_count() const override {
    return BlockCount(options_.out, kOut) * BlockCount(options_.in, kIn);
  }
  size_t worker_scratch_bytes() const override {
    return 2 * Bytes<T>(kRows * kOut) + Bytes<T>(kRows * kIn) +
           Bytes<T>(kOut * kIn) + Bytes<double>(kOut * kIn);
  }
  void RunJob(const KernelCall& call, int64_t job, Arena& arena) const override;

 private:
  SumBlock<T> BlockOf(int64_t job, Arena& arena) const;
  void LoadRows(const KernelCall& call, const RowsAndColumns& part,
                const SumBlock<T>& block) const;
  void Store(const KernelCall& call, const SumBlock<T>& block) const;

  WeightGradientOptions options_;
  ResultGradient gradient_;
  int64_t length_;
  RowSegment segment_;
};

template <typename T>
SumBlock<T> WeightGradientStep<T>::BlockOf(int64_t job, Arena& arena) const {
  const int64_t in_blocks = BlockCount(options_.in, kIn);
  SumBlock<T> block;
  block.out = job / in_blocks * kOut;
  block.outs = std::min(kOut, options_.out - block.out);
  block.in = job % in_blocks * kIn;
  block.ins = std::min(kIn, options_.in - block.in);
  block.gradient = arena.Allocate<T>(kRows * kOut);
  block.turned = arena.Allocate<T>(kRows * kOut);
  block.rows = arena.Allocate<T>(kRows * kIn);
  block.product = arena.Allocate<T>(kOut * kIn);
  block.sums = arena.Allocate<double>(kOut * kIn);
  std::fill_n(block.sums, block.outs * block.ins, 0.0);
  return block;
}

template <typename T>
void WeightGradientStep<T>::RunJob(const KernelCall& call, int64_t job,
                                   Arena& arena) const {
  const SumBlock<T> block = BlockOf(job, arena);
  ForEachRows(segment_, length_, [&](int64_t batch, int64_t row, int64_t rows) {
    LoadRows(call, {batch, row, rows, block.out, block.outs}, block);
    AddRows(rows, block);
  });
  Store(call, block);
}

template <typename T>
void WeightGradientStep<T>::LoadRows(const KernelCall& call,
                                     const RowsAndColumns& part,
                                     const SumBlock<T>& block) const {
  gradient_.Load(call, part, block.gradient);
  const TensorView view =
      ColumnsOf(options_.rows.View(call), block.in, block.ins);
  const HeadRows rows = PaddedRows(view, part.batch, 0);
  for (int64_t r = 0; r < part.rows; ++r) {
    T* to = block.rows + r * block.ins;
    if (IsZeroRow(block.gradient + r * block.outs, block.outs)) {
      std::fill_n(to, block.ins, T{0});
    } else {
      rows.Load(part.row + r, 1, to);
    }
  }
}

template <typename T>
void WeightGradientStep<T>::Store(const KernelCall& call,
                                  const SumBlock<T>& block) const {
  auto* sums = reinterpret_cast<double*>(call.scratch + options_.sums);
  for (int64_t o = 0; o < block.outs; ++o) {
    const double* from = block.sums + o * block.ins;
    double* to = sums + (block.out + o) * options_.in + block.in;
    for (int64_t i = 0; i < block.ins; ++i) {
      to[i] = from[i] + (segment_.first() ? 0 : to[i]);
    }
  }
}

template <typename T>
class ColumnSumStep final : public ProjectionStep {
 public:
  ColumnSumStep(const Problem& problem, const ColumnSumOptions& options,
                const RowSegment& segment)
      : options_(options),
        gradient_(problem, options.gradient),
        length_(CountRows(problem, options.gradient).length),
        segment_(segment) {}

  int64_t job_count() const override { return BlockCount(options_.width, kIn); }
  size_t worker_scratch_bytes() const override { return Bytes<T>(kRows * kIn); }
  void RunJob(const KernelCall& call, int64_t job,
              Arena& arena) const override {
    const int64_t first = job * kIn;
    const int64_t count = std::min(kIn, options_.width - first);
    T* rows = arena.Allocate<T>(kRows * kIn);
    double* sums =
        reinterpret_cast<double*>(call.scratch + options_.sums) + first;
    if (segment_.first()) std::fill_n(sums, count, 0.0);
    ForEachRows(segment_, length_, [&](int64_t batch, int64_t row, int64_t n) {
      gradient_.Load(call, {batch, row, n, first, count}, rows);
      for (int64_t i = 0; i < n * count; ++i) {
        sums[i % count] += static_cast<double>(rows[i]);
      }
    });
  }

 private:
  ColumnSumOptions options_;
  ResultGradient gradient_;
  int64_t length_;
  RowSegment segment_;
};

}  // namespace

std::unique_ptr<const ProjectionStep> MakeWeightGradientStep(
    const Problem& problem, const WeightGradientOptions& options,
    const RowSegment& segment) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<WeightGradientStep<double>>(problem, options,
                                                        segment);
  }
  return std::make_unique<WeightGradientStep<float>>(problem, options, segment);
}

std::unique_ptr<const ProjectionStep> MakeColumnSumStep(
    const Problem& problem, const ColumnSumOptions& options,
    const RowSegment& segment) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<ColumnSumStep<double>>(problem, options, segment);
  }
  return std::make_unique<ColumnSumStep<float>>(problem, options, segment);
}

}  // namespace attn
