#include "tests/testing/compare.h"

#include <cmath>
#include <limits>

namespace attn::oracle {
namespace {

// How many times the tolerance an element is off; infinite where no tolerance
// helps.
double Excess(double got, double want, Tolerance tolerance) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) {
    return std::numeric_limits<double>::infinity();
  }
  const double allowed =
      tolerance.absolute + tolerance.relative * std::fabs(want);
  return std::fabs(got - want) / allowed;
}

}  // namespace

::testing::AssertionResult Close(const std::vector<double>& got,
                                 const std::vector<double>& want,
                                 Tolerance tolerance) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure()
           << got.size() << " elements, want " << want.size();
  }
  size_t worst = 0;
  double worst_excess = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double excess = Excess(got[i], want[i], tolerance);
    if (excess > 1) ++wrong;
    if (excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << wrong << " of " << got.size() << " elements differ; the worst ["
         << worst << "] is " << got[worst] << ", want " << want[worst] << " ("
         << worst_excess << " times the tolerance)";
}

}  // namespace attn::oracle
