// Sparse softmaxes of a row: alpha-entmax for alpha > 1, sparsemax at 2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/normalizers/row_normalizer.h"

namespace attn {

// p_j = [1 + (alpha - 1)(x_j - max - t)]_+ ^ (1 / (alpha - 1)) with sum p = 1:
// Peters et al. 2019, equation 5, with tau = (alpha - 1) t - 1. Solved in
// double. Near alpha = 1 the base is so near 1 that it would lose the logits'
// digits: there the power is taken as exp(log1p(.) / (alpha - 1)), and t is
// what is sought. Elsewhere it is tau, as bases may be near 0. Above alpha = 2
// a base far below tau's last digit is a weight that counts (5e-32 ^ (1 / 19)
// is 0.02): there the base of the smallest logit with a weight is what is
// sought.
template <typename T>
class EntmaxSolver {
 public:
  EntmaxSolver(const T* row, int64_t count, T max, double alpha)
      : row_(row),
        count_(count),
        max_(static_cast<double>(max)),
        slope_(alpha - 1),
        power_(1 / (alpha - 1)),
        near_one_(slope_ < kNearOne) {}

  // Before Weight().
  void Solve() {
    threshold_ = Bisect();
    if (slope_ > 1) FindSmallest();
  }

  double Weight(int64_t j) const { return WeightAt(j, threshold_); }

 private:
  // Below this slope the threshold's base, count ^ -slope, is never near 0.
  static constexpr double kNearOne = 0.25;
  // Halvings from 1 to below a double's smallest step at the largest tau.
  static constexpr int kMaxSteps = 200;
  // Of an exponent's range, to a base's last digit.
  static constexpr int kExponentSteps = 64;

  // tau, or t near alpha = 1, to the last digit: the sum falls as it grows.
  double Bisect() const {
    // The largest logit alone has p = 1 at `low`; at `high` each p <= 1 /
    // count.
    double low = near_one_ ? 0 : -1;
    double high = 0;
    if (near_one_) {
      const double count = static_cast<double>(count_);
      high = -std::expm1(-slope_ * std::log(count)) / slope_;
    }
    for (int step = 0; step < kMaxSteps; ++step) {
      const double middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      (Sum(middle) >= 1 ? low : high) = middle;
    }
    return low;
  }

  double Below(int64_t j) const { return static_cast<double>(row_[j]) - max_; }

  // The smallest logit from tau on, or above it if that has no weight; then its
  // base, by its exponent.
  void FindSmallest() {
    pivot_ = SmallestFrom(threshold_ / slope_, true);
    has_pivot_ = true;
    if (Sum(0) >= 1) pivot_ = SmallestFrom(pivot_, false);
    double low = std::log(std::numeric_limits<double>::min());
    double high = 0;
    for (int step = 0; step < kExponentSteps; ++step) {
      const double middle = low + (high - low) / 2;
      (Sum(-std::exp(middle)) >= 1 ? high : low) = middle;
    }
    threshold_ = -std::exp(high);
  }

  double SmallestFrom(double bound, bool or_equal) const {
    double smallest = 0;
    for (int64_t j = 0; j < count_; ++j) {
      const double below = Below(j);
      if (below > bound || (or_equal && below == bound)) {
        smallest = std::min(smallest, below);
      }
    }
    return smallest;
  }

  double WeightAt(int64_t j, double threshold) const {
    const double below = Below(j) - (has_pivot_ ? pivot_ : 0);
    if (near_one_) {
      const double excess = slope_ * (below - threshold);
      return excess > -1 ? std::exp(std::log1p(excess) / slope_) : 0;
    }
    const double base = slope_ * below - threshold;
    if (!(base > 0)) return 0;
    if (slope_ == 1) return base;
    if (slope_ == 0.5) return base * base;
    return std::pow(base, power_);
  }

  double Sum(double threshold) const {
    double sum = 0;
    for (int64_t j = 0; j < count_; ++j) sum += WeightAt(j, threshold);
    return sum;
  }

  const T* row_;
  int64_t count_;
  double max_;
  double slope_;
  double power_;
  bool near_one_;
  // What is sought: tau or t; with a pivot, a logit less the largest one, tau
  // as seen from there.
  double threshold_ = 0;
  double pivot_ = 0;
  bool has_pivot_ = false;
};

// Replaces the logits of a finite row by their weights.
template <typename T>
void EntmaxRow(T* row, int64_t count, const RowRange<T>& range, double alpha) {
  EntmaxSolver<T> solver(row, count, range.max, alpha);
  solver.Solve();
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += solver.Weight(j);
  for (int64_t j = 0; j < count; ++j) {
    row[j] = static_cast<T>(solver.Weight(j) / sum);
  }
}

}  // namespace attn
