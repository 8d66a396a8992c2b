// -scale * distance(q, k): a Gaussian (squared L2) or Laplace (L1) kernel under
// softmax. Differences are formed first: |q|^2 - 2 q.k + |k|^2 would cancel.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/scores/members.h"
#include "engine/scores/product_score.h"

namespace attn {
namespace {

class NegativeDistance final : public Score {
 public:
  NegativeDistance(const DistanceScore& spec, int64_t width)
      : kind_(spec.distance), scale_(spec.scale.value_or(1)), width_(width) {}

  int64_t prepared_width() const override { return width_; }
  bool is_dot() const override { return false; }
  double scale(const CallView& /*call*/, int64_t /*head*/) const override {
    return scale_;
  }
  double static_scale() const override { return scale_; }

  void Compute(const CallView& /*call*/, const float* q_rows,
               const float* k_rows, const Tile<float>& tile) const override {
    ComputeTile(q_rows, k_rows, tile);
  }
  void Compute(const CallView& /*call*/, const double* q_rows,
               const double* k_rows, const Tile<double>& tile) const override {
    ComputeTile(q_rows, k_rows, tile);
  }
  double Backward(const CallView& call, const ScoreRows& rows,
                  const Tile<double>& gradient,
                  const GradientSink& sink) const override;

 private:
  template <typename T>
  double Sum(const T* q, const T* k) const {
    double sum = 0;
    for (int64_t i = 0; i < width_; ++i) {
      const double d = static_cast<double>(q[i]) - static_cast<double>(k[i]);
      sum += kind_ == Distance::kL1 ? std::abs(d) : d * d;
    }
    return kind_ == Distance::kL2 ? std::sqrt(sum) : sum;
  }
  template <typename T>
  void ComputeTile(const T* q_rows, const T* k_rows,
                   const Tile<T>& tile) const {
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      for (int64_t j = 0; j < tile.bounds.keys; ++j) {
        tile.Row(r)[j] = static_cast<T>(
            -scale_ * Sum(q_rows + r * width_, k_rows + j * width_));
      }
    }
  }
  // d distance / d q_i for the difference d = q_i - k_i; 0 at a kink.
  double Slope(double d, double distance) const {
    switch (kind_) {
      case Distance::kSquaredL2:
        return 2 * d;
      case Distance::kL1:
        return d == 0 ? 0 : std::copysign(1.0, d);
      case Distance::kL2:
        return distance == 0 ? 0 : d / distance;
    }
    return 0;
  }

  Distance kind_;
  double scale_;
  int64_t width_;
};

double NegativeDistance::Backward(const CallView& /*call*/,
                                  const ScoreRows& rows,
                                  const Tile<double>& gradient,
                                  const GradientSink& /*sink*/) const {
  double of_scale = 0;
  for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
    for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
      const double ds = gradient.Row(r)[j];
      if (ds == 0) continue;
      const double* q = rows.q + r * width_;
      const double* k = rows.k + j * width_;
      const double distance = Sum(q, k);
      of_scale -= ds * distance;
      for (int64_t i = 0; i < width_; ++i) {
        const double of_q = -scale_ * ds * Slope(q[i] - k[i], distance);
        rows.q_gradient[r * width_ + i] += of_q;
        rows.k_gradient[j * width_ + i] -= of_q;
      }
    }
  }
  return of_scale;
}

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view field) {
  absl::Status status = CheckEqualWidths(problem);
  if (!status.ok()) return status;
  return CheckScale(std::get<DistanceScore>(spec).scale,
                    absl::StrCat(field, ".distance.scale"));
}

std::string Describe(const ScoreSpec& spec) {
  switch (std::get<DistanceScore>(spec).distance) {
    case Distance::kSquaredL2:
      return "-squared_l2";
    case Distance::kL1:
      return "-l1";
    case Distance::kL2:
      return "-l2";
  }
  return "?";
}

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  return std::make_unique<NegativeDistance>(std::get<DistanceScore>(spec),
                                            problem.shape.k_dim);
}

}  // namespace

ScoreEntry DistanceScoreEntry() {
  return {"distance", "-scale * |q - k|, squared L2, L1 or L2",
          6,          Validate,
          Describe,   Make};
}

}  // namespace attn
