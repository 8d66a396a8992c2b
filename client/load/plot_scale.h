// Where a value lies on the axis of a plot.
#pragma once

#include <string>
#include <vector>

namespace attn {

enum class PlotScaleKind {
  // From 0 on.
  kLinear,
  // Of values > 0.
  kLog,
  // Of percentiles: 90, 99, 99.9 lie at equal distances, so that a tail has
  // room.
  kNines,
};

// What the numbers at the ticks mean.
enum class PlotUnit {
  kNumber,
  // Nanoseconds, with the unit that suits.
  kTime,
  kPercentile,
  kSeconds,
};

// A range of values, widened to where ticks look well. Immutable: thread-safe.
class PlotScale {
 public:
  // `lowest` <= `highest`; a kLinear scale begins at 0 whatever `lowest` is.
  // Percentiles below 100.
  PlotScale(PlotScaleKind kind, PlotUnit unit, double lowest, double highest);

  // 0 at the low end, 1 at the high end; values beyond stay at the ends.
  double At(double value) const;

  struct Tick {
    double value = 0;
    std::string text;
  };
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double Transformed(double value) const;
  void MakeLinear(double highest);
  void MakeLog(double lowest, double highest);
  void MakeNines(double highest);
  void AddTick(double value);

  PlotScaleKind kind_;
  PlotUnit unit_;
  // Of transformed values.
  double from_ = 0;
  double to_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace attn
