#include "engine/projections/row_gradient_step.h"

#include <algorithm>
#include <type_traits>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/projections/result_gradient.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Those of the layer's own step.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 256;

template <typename T>
size_t Bytes(int64_t count) {
  return Arena::Padded(static_cast<size_t>(count) * sizeof(T));
}

// [1, 1, out, in] of a layer's weight.
TensorView WeightRows(const TensorView& weight) {
  TensorView view = weight;
  view.shape = {1, 1, weight.shape[0], weight.shape[1]};
  view.strides = {0, 0, weight.strides[0], weight.strides[1]};
  return view;
}

// c = a * b, all row-major without gaps.
void Product(const ProductSize& size, const float* a, ConstMatrix b, float* c) {
  Multiply(size, {a, size.inner}, b, /*accumulate=*/false, {c, size.columns});
}
void Product(const ProductSize& size, const double* a, const double* b,
             double* c) {
  std::fill_n(c, size.rows * size.columns, 0.0);
  for (int64_t r = 0; r < size.rows; ++r) {
    double* row = c + r * size.columns;
    for (int64_t o = 0; o < size.inner; ++o) {
      const double factor = a[r * size.inner + o];
      const double* from = b + o * size.columns;
      for (int64_t i = 0; i < size.columns; ++i) row[i] += factor * from[i];
    }
  }
}

template <typename T>
class RowGradientStep final : public ProjectionStep {
 public:
  RowGradientStep(const Problem& problem, const RowGradientOptions& options)
      : options_(options),
        gradient_(problem, options.gradient),
        count_(CountRows(problem, options.gradient)),
        out_(problem.inputs[options.weight].shape[0]),
        in_(problem.inputs[options.weight].shape[1]) {}

  int64_t job_count() const override {
    return count_.batch * BlockCount(count_.length, kRows) *
           BlockCount(in_, kColumns);
  }
  size_t worker_scratch_bytes() const override {
    const int64_t rows = std::min(count_.length, kRows);
    const int64_t columns = std::min(in_, kColumns);
    return Bytes<T>(rows * out_) + Bytes<T>(out_ * columns) +
           Bytes<T>(rows * columns);
  }
  void RunJob(const KernelCall& call, int64_t job, Arena& arena) const override;

 private:
  void Store(const KernelCall& call, const RowsAndColumns& part,
             const T* gradient, T* rows) const;

  RowGradientOptions options_;
  ResultGradient gradient_;
  RowCount count_;
  int64_t out_;
  int64_t in_;
};

template <typename T>
void RowGradientStep<T>::RunJob(const KernelCall& call, int64_t job,
                                Arena& arena) const {
  const int64_t column_blocks = BlockCount(in_, kColumns);
  const int64_t row_blocks = BlockCount(count_.length, kRows);
  RowsAndColumns part;
  part.column = job % column_blocks * kColumns;
  part.columns = std::min(kColumns, in_ - part.column);
  part.row = job / column_blocks % row_blocks * kRows;
  part.rows = std::min(kRows, count_.length - part.row);
  part.batch = job / column_blocks / row_blocks;

  const auto take = [&arena](int64_t count) {
    return arena.Allocate<T>(static_cast<size_t>(count));
  };
  T* gradient = take(part.rows * out_);
  gradient_.Load(call, {part.batch, part.row, part.rows, 0, out_}, gradient);
  const TensorView weight =
      ColumnsOf(WeightRows(call.args->inputs[options_.weight]), part.column,
                part.columns);
  const HeadRows w = PaddedRows(weight, 0, 0);
  T* rows = take(part.rows * part.columns);
  const ProductSize size = {part.rows, part.columns, out_};
  const bool in_place = std::is_same_v<T, float> && w.is_matrix();
  T* loaded = in_place ? nullptr : take(out_ * part.columns);
  if (!in_place) w.Load(0, out_, loaded);
  if constexpr (std::is_same_v<T, float>) {
    Product(size, gradient,
            in_place ? w.MatrixFrom(0) : ConstMatrix{loaded, part.columns},
            rows);
  } else {
    Product(size, gradient, loaded, rows);
  }
  Store(call, part, gradient, rows);
}

// Counts what is not finite here but was so in the gradient.
template <typename T>
void RowGradientStep<T>::Store(const KernelCall& call,
                               const RowsAndColumns& part, const T* gradient,
                               T* rows) const {
  const MutableTensorView to = options_.target.Target(call);
  if (!to.wanted()) return;
  const auto size = static_cast<int64_t>(SizeOf(to.dtype));
  int64_t nonfinite = 0;
  for (int64_t r = 0; r < part.rows; ++r) {
    T* row = rows + r * part.columns;
    const T* from = gradient + r * out_;
    // Whatever the weight holds.
    if (IsZeroRow(from, out_)) std::fill_n(row, part.columns, T{0});
    int64_t at = part.batch * to.strides[0] + (part.row + r) * to.strides[2] +
                 part.column * to.strides[3];
    for (int64_t i = 0; i < part.columns; ++i, at += to.strides[3]) {
      StoreElements(row + i, 1, to.dtype, to.data + size * at);
    }
    const int64_t found = CountNonFinite(row, part.columns);
    if (found > 0 && CountNonFinite(from, out_) == 0) nonfinite += found;
  }
  call.counters->nonfinite_outputs.fetch_add(nonfinite,
                                             std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<const ProjectionStep> MakeRowGradientStep(
    const Problem& problem, const RowGradientOptions& options) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<RowGradientStep<double>>(problem, options);
  }
  return std::make_unique<RowGradientStep<float>>(problem, options);
}

}  // namespace attn
