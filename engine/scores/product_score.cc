#include "engine/scores/product_score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

double MaxLogScale(const LearnedScale& learned) {
  return learned.max_log_scale.value_or(
      std::numeric_limits<double>::infinity());
}

// Index of a head's value among [Hq] or [1].
int64_t ValueIndex(const ParameterView& values, int64_t head) {
  return values.size() == 1 ? 0 : head;
}

}  // namespace

double ProductScore::scale(const CallView& call, int64_t head) const {
  if (!learned_.has_value()) return scale_;
  const ParameterView values(call.args.inputs[learned_->log_scale]);
  const double value = values.At(ValueIndex(values, head));
  return scale_ * std::exp(std::min(value, MaxLogScale(*learned_)));
}

template <typename T>
void ProductScore::ComputeTile(const CallView& call, const T* q_rows,
                               const T* k_rows, const Tile<T>& tile) const {
  const double factor = scale(call, tile.bounds.head);
  const int64_t width = prepared_width();
  for (int64_t r = 0; r < tile.bounds.rows; ++r) {
    T* row = tile.Row(r);
    for (int64_t j = 0; j < tile.bounds.keys; ++j) {
      const T product = Dot(q_rows + r * width, k_rows + j * width, width);
      // In double: the scale itself need not fit a float.
      row[j] = static_cast<T>(factor * static_cast<double>(product));
    }
  }
}

void ProductScore::Compute(const CallView& call, const float* q_rows,
                           const float* k_rows, const Tile<float>& tile) const {
  ComputeTile(call, q_rows, k_rows, tile);
}

void ProductScore::Compute(const CallView& call, const double* q_rows,
                           const double* k_rows,
                           const Tile<double>& tile) const {
  ComputeTile(call, q_rows, k_rows, tile);
}

// s = c <q, k>: dq = c k ds, dk = c q ds, dc = <q, k> ds.
double ProductScore::Backward(const CallView& call, const ScoreRows& rows,
                              const Tile<double>& gradient,
                              const GradientSink& sink) const {
  const int64_t width = prepared_width();
  const int64_t head = gradient.bounds.head;
  const double factor = scale(call, head);
  double of_factor = 0;
  for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
    const double* q = rows.q + r * width;
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      const double ds = gradient.Row(r)[j];
      if (ds == 0) continue;
      const double* k = rows.k + j * width;
      double product = 0;
      for (int64_t i = 0; i < width; ++i) {
        rows.q_gradient[r * width + i] += factor * ds * k[i];
        rows.k_gradient[j * width + i] += factor * ds * q[i];
        product += q[i] * k[i];
      }
      of_factor += product * ds;
    }
  }
  return ScaleBackward(call, head, of_factor, sink);
}

// c = scale exp(min(l, max)): dl = c dc where the clamp does not hold l.
double ProductScore::ScaleBackward(const CallView& call, int64_t head,
                                   double gradient,
                                   const GradientSink& sink) const {
  if (!learned_.has_value()) return gradient;
  const ParameterView values(call.args.inputs[learned_->log_scale]);
  const int64_t index = ValueIndex(values, head);
  const double limit = MaxLogScale(*learned_);
  const double value = values.At(index);
  double* of_values = sink.Of(learned_->log_scale);
  if (of_values != nullptr && value < limit) {
    of_values[index] += gradient * scale_ * std::exp(value);
  }
  return gradient * std::exp(std::min(value, limit));
}

absl::Status CheckLearnedScale(const Problem& problem,
                               const std::optional<LearnedScale>& learned,
                               const std::string& field) {
  if (!learned.has_value()) return absl::OkStatus();
  if (std::isnan(learned->max_log_scale.value_or(0))) {
    return FieldError(absl::StrCat(field, ".max_log_scale"), "nan", "a number");
  }
  return CheckParameter(problem, learned->log_scale,
                        {Shape{problem.shape.q_heads}, Shape{1}},
                        absl::StrCat(field, ".log_scale.input"));
}

absl::Status CheckScale(const std::optional<double>& scale,
                        const std::string& field) {
  if (!scale.has_value() || std::isfinite(*scale)) return absl::OkStatus();
  return FieldError(field, absl::StrCat(*scale), "a finite number");
}

absl::Status CheckEqualWidths(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  if (shape.q_dim == shape.k_dim) return absl::OkStatus();
  return FieldError("k.shape", absl::StrCat("dim ", shape.k_dim),
                    absl::StrCat("dim ", shape.q_dim, " as in q.shape"));
}

}  // namespace attn
