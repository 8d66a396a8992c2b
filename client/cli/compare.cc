#include "client/cli/compare.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attn {
namespace {

// How far outside what is allowed: > 0 is a mismatch.
double Excess(double got, double want, double allowed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(want) || !std::isfinite(got))
    return got == want ? 0 : kInfinity;
  return std::abs(got - want) - allowed;
}

// Strides that walk `want` along the axes of `got`; 0 where it is broadcast.
absl::StatusOr<std::vector<int64_t>> BroadcastStrides(const Shape& got,
                                                      const Shape& want) {
  std::vector<int64_t> strides(static_cast<size_t>(got.rank()), 0);
  int64_t stride = 1;
  for (int back = 1; back <= want.rank(); ++back) {
    const int64_t extent = want[want.rank() - back];
    const bool fits =
        back <= got.rank() && (extent == 1 || extent == got[got.rank() - back]);
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "got shape ", got.ToString(), ", want ", want.ToString()));
    }
    if (extent != 1) {
      strides[static_cast<size_t>(got.rank() - back)] = stride;
    }
    stride *= extent;
  }
  return strides;
}

// The multi-index of an element.
std::vector<int64_t> Unravel(const Shape& shape, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

}  // namespace

absl::StatusOr<Comparison> Compare(const HostTensor& got,
                                   const HostTensor& want,
                                   const Tolerance& tolerance) {
  const Shape& shape = got.shape();
  const bool same = got.element_count() == want.element_count();
  const auto strides =
      same ? absl::StatusOr<std::vector<int64_t>>(std::vector<int64_t>())
           : BroadcastStrides(shape, want.shape());
  if (!strides.ok()) return strides.status();
  Comparison comparison;
  comparison.elements = got.element_count();
  double worst = 0;
  for (int64_t i = 0; i < got.element_count(); ++i) {
    int64_t at = i;
    if (!same) {
      const std::vector<int64_t> index = Unravel(shape, i);
      at = 0;
      for (size_t a = 0; a < index.size(); ++a) at += index[a] * (*strides)[a];
    }
    const double x = got.At(i);
    const double y = want.At(at);
    if (std::isfinite(x) && std::isfinite(y)) {
      comparison.max_difference =
          std::max(comparison.max_difference, std::abs(x - y));
    }
    const double allowed = tolerance.atol + tolerance.rtol * std::abs(y);
    const double excess = Excess(x, y, allowed);
    if (excess <= 0) continue;
    ++comparison.mismatches;
    if (excess > worst) {
      worst = excess;
      comparison.worst =
          WorstElement{.index = absl::StrCat(
                           "[", absl::StrJoin(Unravel(shape, i), ", "), "]"),
                       .got = x,
                       .want = y,
                       .allowed = allowed};
    }
  }
  return comparison;
}

}  // namespace attn
