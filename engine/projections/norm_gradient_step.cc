#include "engine/projections/norm_gradient_step.h"

#include <algorithm>
#include <cmath>

#include "engine/projections/result_gradient.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

constexpr int64_t kRows = 64;

template <typename T>
class NormGradientStep final : public ProjectionStep {
 public:
  NormGradientStep(const Problem& problem, const NormGradientOptions& options)
      : options_(options),
        count_(CountRows(problem, options.gradient)),
        width_(options.rows.shape[3]) {}

  int64_t job_count() const override { return count_.batch * blocks(); }
  size_t worker_scratch_bytes() const override {
    return Arena::Padded(static_cast<size_t>(width_) * sizeof(double));
  }
  void RunJob(const KernelCall& call, int64_t job,
              Arena& arena) const override {
    auto* gain = arena.Allocate<double>(static_cast<size_t>(width_));
    ParameterView(call.args->inputs[options_.norm.weight])
        .Load(0, width_, gain);
    const int64_t batch = job / blocks();
    const int64_t begin = job % blocks() * kRows;
    const int64_t end = std::min(begin + kRows, count_.length);
    for (int64_t row = begin; row < end; ++row) {
      T* dy = RowOf(call, options_.gradient, batch, row);
      T* dx = RowOf(call, options_.target, batch, row);
      if (IsZeroRow(dy, width_)) {
        std::fill_n(dx, width_, T{0});
      } else {
        GoBack(RowOf(call, options_.rows, batch, row), gain, dy, dx);
      }
    }
  }

 private:
  int64_t blocks() const { return BlockCount(count_.length, kRows); }
  static T* RowOf(const KernelCall& call, const RowSource& rows, int64_t batch,
                  int64_t row) {
    return reinterpret_cast<T*>(call.scratch + rows.offset) +
           batch * rows.batch_stride + row * rows.row_stride;
  }
  void GoBack(const T* x, const double* gain, T* dy, T* dx) const {
    double squares = 0;
    double along = 0;
    for (int64_t i = 0; i < width_; ++i) {
      const auto value = static_cast<double>(x[i]);
      squares += value * value;
      along += gain[i] * static_cast<double>(dy[i]) * value;
    }
    const auto width = static_cast<double>(width_);
    const double mean = squares / width + options_.norm.eps;
    const double s = std::sqrt(mean);
    for (int64_t i = 0; i < width_; ++i) {
      const auto value = static_cast<double>(x[i]);
      const auto d = static_cast<double>(dy[i]);
      dx[i] = static_cast<T>((gain[i] * d - value * along / width / mean) / s);
      dy[i] = static_cast<T>(d * value / s);
    }
  }

  NormGradientOptions options_;
  RowCount count_;
  int64_t width_;
};

}  // namespace

std::unique_ptr<const ProjectionStep> MakeNormGradientStep(
    const Problem& problem, const NormGradientOptions& options) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<NormGradientStep<double>>(problem, options);
  }
  return std::make_unique<NormGradientStep<float>>(problem, options);
}

}  // namespace attn
