// Sparse softmaxes of a row: alpha-entmax for alpha > 1, sparsemax at 2.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/normalizers/row_normalizer.h"

namespace attn {

// p_j = [(alpha - 1)(x_j - max) - tau]_+ ^ (1 / (alpha - 1)) with sum p = 1
// (Peters et al. 2019, equation 5). tau lies in [-1, 0): only logits within
// 1 / (alpha - 1) of the largest can have weight. Solved in double.
template <typename T>
class EntmaxSolver {
 public:
  EntmaxSolver(const T* row, int64_t count, T max, double alpha)
      : row_(row),
        count_(count),
        max_(static_cast<double>(max)),
        slope_(alpha - 1),
        power_(1 / (alpha - 1)) {}

  // Bisection to the last digit: the sum falls as tau grows.
  double Solve() const {
    double low = -1;  // the largest logit alone has p = 1 here
    double high = 0;
    for (int step = 0; step < kMaxSteps; ++step) {
      const double middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      (Sum(middle) >= 1 ? low : high) = middle;
    }
    return low;
  }

  double Weight(int64_t j, double tau) const {
    const double base = slope_ * (static_cast<double>(row_[j]) - max_) - tau;
    if (!(base > 0)) return 0;
    if (slope_ == 1) return base;
    if (slope_ == 0.5) return base * base;
    return std::pow(base, power_);
  }

 private:
  // Halvings from 1 to below a double's smallest step at the largest tau.
  static constexpr int kMaxSteps = 200;

  double Sum(double tau) const {
    double sum = 0;
    for (int64_t j = 0; j < count_; ++j) sum += Weight(j, tau);
    return sum;
  }

  const T* row_;
  int64_t count_;
  double max_;
  double slope_;
  double power_;
};

// Replaces the logits of a finite row by their weights.
template <typename T>
void EntmaxRow(T* row, int64_t count, const RowRange<T>& range, double alpha) {
  const EntmaxSolver<T> solver(row, count, range.max, alpha);
  const double tau = solver.Solve();
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += solver.Weight(j, tau);
  for (int64_t j = 0; j < count; ++j) {
    row[j] = static_cast<T>(solver.Weight(j, tau) / sum);
  }
}

// dx = s (g - sum s g / sum s) with s = p^(2 - alpha) on the support (Peters et
// al. 2019, section 3.3).
inline void EntmaxBackwardRow(const ForwardRow& row, double alpha,
                              double* gradient) {
  double sum = 0;
  double weighted = 0;
  for (int64_t j = 0; j < row.count; ++j) {
    if (row.weights[j] <= 0) continue;
    const double s = std::pow(row.weights[j], 2 - alpha);
    sum += s;
    weighted += s * gradient[j];
  }
  for (int64_t j = 0; j < row.count; ++j) {
    gradient[j] = row.weights[j] <= 0 ? 0
                                      : std::pow(row.weights[j], 2 - alpha) *
                                            (gradient[j] - weighted / sum);
  }
}

}  // namespace attn
