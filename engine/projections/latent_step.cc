#include "engine/projections/latent_step.h"

#include <algorithm>
#include <vector>

#include "engine/core/call_view.h"
#include "engine/projections/latent_row_step.h"

namespace attn {
namespace {

// A problem whose whole rows are the part that turns.
Problem TurningPart(const Problem& problem) {
  Problem part = problem;
  part.shape.q_dim = *problem.spec.projections->latent->rotary.rotary_dim;
  part.shape.k_dim = part.shape.q_dim;
  return part;
}

template <typename T>
class LatentStep final : public LatentRowStep<T, T> {
 public:
  LatentStep(const Problem& problem, const LatentStepOptions& options)
      : LatentRowStep<T, T>(problem), options_(options) {}

 private:
  using Rows = LatentRowStep<T, T>;

  void Turn(const KernelCall& call, Side side, int64_t batch, int64_t row,
            T* part) const {
    const CallView view{Rows::shape(), *call.args};
    Rows::rotary().Apply(view, side, RowSpan{batch, 0, row, 1}, part);
  }
  void VisitQuery(const KernelCall& call, int64_t batch, int64_t row,
                  T* turned) const override {
    T* head = Rows::RowOf(call, options_.queries, batch, row) + Rows::plain();
    for (int64_t h = 0; h < Rows::shape().q_heads; ++h) {
      std::copy_n(head, Rows::turning(), turned);
      Turn(call, Side::kQuery, batch, row, turned);
      std::copy_n(turned, Rows::turning(), head);
      head += Rows::plain() + Rows::turning();
    }
  }
  void VisitKey(const KernelCall& call, int64_t batch, int64_t row,
                T* turned) const override {
    const T* compressed = Rows::RowOf(call, options_.compressed, batch, row);
    const T* shared =
        compressed + options_.compressed.shape[3] - Rows::turning();
    std::copy_n(shared, Rows::turning(), turned);
    Turn(call, Side::kKey, batch, row, turned);
    const T* expanded = Rows::RowOf(call, options_.expanded, batch, row);
    T* key = Rows::RowOf(call, options_.keys, batch, row);
    for (int64_t h = 0; h < Rows::shape().q_heads; ++h) {
      std::copy_n(expanded, Rows::plain(), key);
      std::copy_n(turned, Rows::turning(), key + Rows::plain());
      expanded += Rows::plain() + Rows::shape().v_dim;
      key += Rows::plain() + Rows::turning();
    }
  }

  LatentStepOptions options_;
};

}  // namespace

std::unique_ptr<const Transform> MakeLatentRotary(const Problem& problem) {
  const TransformSpec spec = problem.spec.projections->latent->rotary;
  return TransformTable()[spec.index()].make(spec, TurningPart(problem));
}

std::unique_ptr<const ProjectionStep> MakeLatentStep(
    const Problem& problem, const LatentStepOptions& options) {
  if (problem.dtype == DType::kF64) {
    return std::make_unique<LatentStep<double>>(problem, options);
  }
  return std::make_unique<LatentStep<float>>(problem, options);
}

}  // namespace attn
