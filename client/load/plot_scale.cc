#include "client/load/plot_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace attn {
namespace {

// "2 ms", "500 us"
std::string TimeTick(double nanos) {
  if (nanos >= 1e9) return absl::StrFormat("%g s", nanos / 1e9);
  if (nanos >= 1e6) return absl::StrFormat("%g ms", nanos / 1e6);
  if (nanos >= 1e3) return absl::StrFormat("%g us", nanos / 1e3);
  return absl::StrFormat("%g ns", nanos);
}

std::string TickText(PlotUnit unit, double value) {
  switch (unit) {
    case PlotUnit::kTime:
      return TimeTick(value);
    case PlotUnit::kPercentile:
      return absl::StrFormat("%.10g %%", value);
    case PlotUnit::kSeconds:
      return absl::StrFormat("%g s", value);
    default:
      return absl::StrFormat("%g", value);
  }
}

// The least of 1, 2 or 5 times a power of ten that is >= `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

PlotScale::PlotScale(PlotScaleKind kind, PlotUnit unit, double lowest,
                     double highest)
    : kind_(kind), unit_(unit) {
  if (kind == PlotScaleKind::kLinear) MakeLinear(highest);
  if (kind == PlotScaleKind::kLog) MakeLog(lowest, highest);
  if (kind == PlotScaleKind::kNines) MakeNines(highest);
}

double PlotScale::At(double value) const {
  const double place = (Transformed(value) - from_) / (to_ - from_);
  return std::clamp(place, 0.0, 1.0);
}

double PlotScale::Transformed(double value) const {
  constexpr double kLeast = 1e-12;
  switch (kind_) {
    case PlotScaleKind::kLog:
      return std::log10(std::max(kLeast, value));
    case PlotScaleKind::kNines:
      return 2 - std::log10(std::max(kLeast, 100 - value));
    default:
      return value;
  }
}

void PlotScale::AddTick(double value) {
  ticks_.push_back({.value = value, .text = TickText(unit_, value)});
}

void PlotScale::MakeLinear(double highest) {
  constexpr int kMostTickSteps = 6;
  const double step = RoundStep(std::max(highest, 1e-9) / kMostTickSteps);
  const int steps =
      std::max(1, static_cast<int>(std::ceil(highest / step * (1 - 1e-9))));
  to_ = steps * step;
  for (int i = 0; i <= steps; ++i) AddTick(i * step);
}

void PlotScale::MakeLog(double lowest, double highest) {
  const double least = std::max(lowest, 1e-12);
  const double most = std::max(highest, least);
  // Ends at 1, 2 or 5 times a power of ten.
  const auto below = [](double value) { return 1 / RoundStep(1 / value); };
  const double start = below(least);
  const double end = std::max(RoundStep(most), RoundStep(start * 1.5));
  from_ = std::log10(start);
  to_ = std::log10(end);
  constexpr double kMostDecadesWithParts = 2.5;
  const bool parts = to_ - from_ < kMostDecadesWithParts;
  for (double power = std::pow(10, std::floor(from_)); power <= end * 1.01;
       power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * power;
      const bool inside = value >= start * 0.99 && value <= end * 1.01;
      if (inside && (parts || factor == 1)) AddTick(value);
    }
  }
}

void PlotScale::MakeNines(double highest) {
  from_ = 0;
  to_ = std::max(1.0, std::ceil(Transformed(highest) - 1e-9));
  AddTick(0);
  // Where there is room for it.
  constexpr double kManyNines = 5;
  if (to_ < kManyNines) AddTick(50);
  for (int nines = 1; nines <= static_cast<int>(to_); ++nines) {
    AddTick(100 - std::pow(10, 2 - nines));
  }
}

}  // namespace attn
