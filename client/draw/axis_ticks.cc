#include "client/draw/axis_ticks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace attn {
namespace {

// Enough for the ticks of one scale to differ.
std::string LabelOf(double value, double step) {
  const double digits = -std::floor(std::log10(step) + 1e-9);
  const double largest = std::max(std::abs(value), step);
  if (largest >= 1e5 || digits > 4) return absl::StrFormat("%.3g", value);
  return absl::StrFormat("%.*f", static_cast<int>(std::max(digits, 0.0)),
                         value == 0 ? 0.0 : value);
}

}  // namespace

double NiceStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  // A little less: a step that is nice already may come with an error.
  const double share = step / power - 1e-9;
  for (const double nice : {1.0, 2.0, 5.0}) {
    if (share <= nice) return nice * power;
  }
  return 10 * power;
}

std::vector<ValueTick> ValueTicks(double low, double high, int most) {
  // Halves first: the range itself may be beyond what a double holds.
  const double step =
      NiceStep((high / 2 - low / 2) / static_cast<double>(most - 1) * 2);
  std::vector<ValueTick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i < most; ++i) {
    const double value = (first + i) * step;
    if (value / 2 > high / 2 + 1e-9 * step) break;
    ticks.push_back({value, LabelOf(value, step)});
  }
  return ticks;
}

std::vector<int64_t> IndexTicks(int64_t begin, int64_t count, int64_t step) {
  std::vector<int64_t> ticks;
  const int64_t first = (begin + step - 1) / step * step;
  for (int64_t index = first; index < begin + count; index += step) {
    ticks.push_back(index);
  }
  return ticks;
}

}  // namespace attn
