#include "engine/projections/linear_step.h"

#include <algorithm>
#include <cmath>

#include "engine/core/call_view.h"
#include "engine/kernels/head_rows.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/tile/convert.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Rows and columns of a job. The rows share what a job loads of the weights;
// the columns let one token's row keep several workers busy.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 256;

template <typename T>
size_t Bytes(int64_t count) {
  return Arena::Padded(static_cast<size_t>(count) * sizeof(T));
}

// c = a * transpose(b), rows one after the other in each.
void Product(const ProductSize& size, ConstMatrix a, ConstMatrix b, float* c) {
  MultiplyTransposed(size, 1, a, b, {c, size.columns});
}
void Product(const ProductSize& size, const double* a, const double* b,
             double* c) {
  for (int64_t r = 0; r < size.rows; ++r) {
    for (int64_t o = 0; o < size.columns; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < size.inner; ++i) {
        sum += a[r * size.inner + i] * b[o * size.inner + i];
      }
      c[r * size.columns + o] = sum;
    }
  }
}

template <typename T>
class LinearStep final : public ProjectionStep {
 public:
  LinearStep(const Problem& problem, const LinearStepOptions& options,
             const RowCount& rows)
      : options_(options),
        shape_(problem.shape),
        batch_(rows.batch),
        length_(rows.length),
        out_(problem.inputs[options.layer.weight].shape[0]),
        in_(problem.inputs[options.layer.weight].shape[1]) {}

  int64_t job_count() const override {
    return batch_ * BlockCount(length_, kRows) * BlockCount(out_, kColumns);
  }
  size_t worker_scratch_bytes() const override {
    const int64_t rows = std::min(length_, kRows);
    const int64_t columns = std::min(out_, kColumns);
    return Bytes<T>(rows * in_) + Bytes<T>(columns * in_) +
           Bytes<T>(rows * columns) + 2 * Bytes<T>(std::max(columns, in_));
  }
  void RunJob(const KernelCall& call, int64_t job, Arena& arena) const override;

 private:
  // What one job computes.
  struct Part {
    int64_t batch;
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
  };

  Part PartOf(int64_t job) const;
  void Normalize(const KernelCall& call, const Part& part, T* x,
                 Arena& arena) const;
  void AddBias(const KernelCall& call, const Part& part, T* y,
               Arena& arena) const;
  void CopyRows(const KernelCall& call, const RowSource& target,
                const Part& part, const T* rows, int64_t width) const;
  void StoreOutput(const KernelCall& call, const Part& part, T* y,
                   Arena& arena) const;

  LinearStepOptions options_;
  AttentionShape shape_;
  int64_t batch_;
  int64_t length_;
  int64_t out_;
  int64_t in_;
};

template <typename T>
typename LinearStep<T>::Part LinearStep<T>::PartOf(int64_t job) const {
  const int64_t column_blocks = BlockCount(out_, kColumns);
  const int64_t row_blocks = BlockCount(length_, kRows);
  Part part = {};
  part.column = job % column_blocks * kColumns;
  part.columns = std::min(kColumns, out_ - part.column);
  part.row = job / column_blocks % row_blocks * kRows;
  part.rows = std::min(kRows, length_ - part.row);
  part.batch = job / column_blocks / row_blocks;
  return part;
}

// The rows of a [B, 1, S, width] or [out, in] tensor, loaded if the product
// cannot read them as they stand.
ConstMatrix Operand(const HeadRows& rows, int64_t first, int64_t count,
                    bool copy, Arena& arena) {
  if (rows.is_matrix() && !copy) return rows.MatrixFrom(first);
  auto* loaded =
      arena.Allocate<float>(static_cast<size_t>(count * rows.width()));
  rows.Load(first, count, loaded);
  return {loaded, rows.width()};
}

const double* Operand(const HeadRows& rows, int64_t first, int64_t count,
                      Arena& arena) {
  auto* loaded =
      arena.Allocate<double>(static_cast<size_t>(count * rows.width()));
  rows.Load(first, count, loaded);
  return loaded;
}

TensorView WeightRows(const TensorView& weight) {
  TensorView view = weight;
  view.shape = {1, 1, weight.shape[0], weight.shape[1]};
  view.strides = {0, 0, weight.strides[0], weight.strides[1]};
  return view;
}

template <typename T>
void LinearStep<T>::RunJob(const KernelCall& call, int64_t job,
                           Arena& arena) const {
  const Part part = PartOf(job);
  const TensorView tokens = options_.source.View(call);
  const TensorView weight =
      WeightRows(call.args->inputs[options_.layer.weight]);
  const HeadRows x_rows = PaddedRows(tokens, part.batch, 0);
  const HeadRows w_rows = PaddedRows(weight, 0, 0);
  const ProductSize size = {part.rows, part.columns, in_};
  T* y = arena.Allocate<T>(static_cast<size_t>(part.rows * part.columns));
  if constexpr (std::is_same_v<T, float>) {
    const bool norm = options_.norm.has_value();
    const ConstMatrix x = Operand(x_rows, part.row, part.rows, norm, arena);
    if (norm) {
      // Operand() has made a copy of ours.
      Normalize(call, part, const_cast<float*>(x.data), arena);
    }
    const ConstMatrix w =
        Operand(w_rows, part.column, part.columns, false, arena);
    Product(size, x, w, y);
  } else {
    const double* x = Operand(x_rows, part.row, part.rows, arena);
    if (options_.norm.has_value()) {
      Normalize(call, part, const_cast<double*>(x), arena);
    }
    const double* w = Operand(w_rows, part.column, part.columns, arena);
    Product(size, x, w, y);
  }
  AddBias(call, part, y, arena);
  if (options_.target.has_value()) {
    CopyRows(call, *options_.target, part, y, part.columns);
  } else {
    StoreOutput(call, part, y, arena);
  }
}

template <typename T>
void LinearStep<T>::Normalize(const KernelCall& call, const Part& part, T* x,
                              Arena& arena) const {
  T* gain = arena.Allocate<T>(static_cast<size_t>(in_));
  ParameterView(call.args->inputs[options_.norm->weight]).Load(0, in_, gain);
  for (int64_t r = 0; r < part.rows; ++r) {
    T* row = x + r * in_;
    double squares = 0;
    for (int64_t i = 0; i < in_; ++i) {
      squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    const double norm =
        std::sqrt(squares / static_cast<double>(std::max<int64_t>(in_, 1)) +
                  options_.norm->eps);
    for (int64_t i = 0; i < in_; ++i) {
      row[i] = static_cast<T>(static_cast<double>(row[i]) / norm) * gain[i];
    }
  }
  // Every column's job has the same rows.
  if (part.column == 0 && options_.normed.has_value()) {
    CopyRows(call, *options_.normed, part, x, in_);
  }
}

template <typename T>
void LinearStep<T>::AddBias(const KernelCall& call, const Part& part, T* y,
                            Arena& arena) const {
  if (!options_.layer.bias.has_value()) return;
  T* bias = arena.Allocate<T>(static_cast<size_t>(part.columns));
  ParameterView(call.args->inputs[*options_.layer.bias])
      .Load(part.column, part.columns, bias);
  for (int64_t r = 0; r < part.rows; ++r) {
    T* row = y + r * part.columns;
    for (int64_t o = 0; o < part.columns; ++o) row[o] += bias[o];
  }
}

// To the part's rows of `target`, from its first column on.
template <typename T>
void LinearStep<T>::CopyRows(const KernelCall& call, const RowSource& target,
                             const Part& part, const T* rows,
                             int64_t width) const {
  T* to = reinterpret_cast<T*>(call.scratch + target.offset) +
          part.batch * target.batch_stride + part.row * target.row_stride +
          part.column;
  for (int64_t r = 0; r < part.rows; ++r) {
    std::copy_n(rows + r * width, width, to + r * target.row_stride);
  }
}

template <typename T>
void LinearStep<T>::StoreOutput(const KernelCall& call, const Part& part, T* y,
                                Arena& arena) const {
  const MutableTensorView& tensor = call.outputs.output;
  if (!tensor.wanted()) return;
  const int64_t valid =
      CallView{shape_, *call.args}.q_length(part.batch) - part.row;
  const HeadRows heads = PaddedRows(options_.source.View(call), part.batch, 0);
  T* row_of_heads = arena.Allocate<T>(static_cast<size_t>(in_));
  int64_t nonfinite = 0;
  for (int64_t r = 0; r < part.rows; ++r) {
    T* row = y + r * part.columns;
    if (r >= valid) std::fill_n(row, part.columns, T{0});
    std::byte* to =
        tensor.data + static_cast<int64_t>(SizeOf(tensor.dtype)) *
                          (part.batch * tensor.strides[0] +
                           (part.row + r) * tensor.strides[1] + part.column);
    StoreElements(row, part.columns, tensor.dtype, to);
    LoadElements(to, tensor.dtype, 1, part.columns, row);
    const int64_t found = CountNonFinite(row, part.columns);
    if (found == 0) continue;
    // What was not finite in the heads has been counted there.
    heads.Load(part.row + r, 1, row_of_heads);
    if (CountNonFinite(row_of_heads, in_) == 0) nonfinite += found;
  }
  call.counters->nonfinite_outputs.fetch_add(nonfinite,
                                             std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<const ProjectionStep> MakeLinearStep(
    const Problem& problem, const LinearStepOptions& options) {
  const RowCount rows = CountRows(problem, options.source);
  if (problem.dtype == DType::kF64) {
    return std::make_unique<LinearStep<double>>(problem, options, rows);
  }
  return std::make_unique<LinearStep<float>>(problem, options, rows);
}

}  // namespace attn
