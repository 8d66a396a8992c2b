#include "engine/projections/latent_gradient_step.h"

#include <algorithm>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/projections/latent_row_step.h"
#include "engine/transforms/transform.h"

namespace attn {
namespace {

template <typename T>
class LatentGradientStep final : public LatentRowStep<T, double> {
 public:
  LatentGradientStep(const Problem& problem,
                     const LatentGradientOptions& options)
      : LatentRowStep<T, double>(problem), options_(options) {}

 private:
  using Rows = LatentRowStep<T, double>;

  // A latent call's angles come from positions alone: neither rows nor tables
  // have a part in it.
  void TurnBack(const KernelCall& call, Side side, const RowSpan& span,
                double* part) const {
    const CallView view{Rows::shape(), *call.args};
    const GradientSink none(std::vector<double*>{});
    Rows::rotary().Backward(view, side, span, nullptr, part, none);
  }
  void VisitQuery(const KernelCall& call, int64_t batch, int64_t row,
                  double* part) const override {
    T* head = Rows::RowOf(call, options_.queries, batch, row) + Rows::plain();
    for (int64_t h = 0; h < Rows::shape().q_heads; ++h) {
      std::copy_n(head, Rows::turning(), part);
      TurnBack(call, Side::kQuery, {batch, 0, row, 1}, part);
      for (int64_t i = 0; i < Rows::turning(); ++i)
        head[i] = static_cast<T>(part[i]);
      head += Rows::plain() + Rows::turning();
    }
  }
  void VisitKey(const KernelCall& call, int64_t batch, int64_t row,
                double* part) const override {
    const T* key = Rows::RowOf(call, options_.keys, batch, row);
    T* expanded = Rows::RowOf(call, options_.expanded, batch, row);
    std::fill_n(part, Rows::turning(), 0.0);
    for (int64_t h = 0; h < Rows::shape().q_heads; ++h) {
      std::copy_n(key, Rows::plain(), expanded);
      for (int64_t i = 0; i < Rows::turning(); ++i) {
        part[i] += static_cast<double>(key[Rows::plain() + i]);
      }
      key += Rows::plain() + Rows::turning();
      expanded += Rows::plain() + Rows::shape().v_dim;
    }
    TurnBack(call, Side::kKey, {batch, 0, row, 1}, part);
    T* shared = Rows::RowOf(call, options_.compressed, batch, row) +
                options_.compressed.shape[3] - Rows::turning();
    for (int64_t i = 0; i < Rows::turning(); ++i)
      shared[i] = static_cast<T>(part[i]);
  }

  LatentGradientOptions options_;
};

}  // namespace

std::unique_ptr<const ProjectionStep> MakeLatentGradientStep(
    const Problem& problem, const LatentGradientOptions& options) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<LatentGradientStep<double>>(problem, options);
  }
  return std::make_unique<LatentGradientStep<float>>(problem, options);
}

}  // namespace attn
