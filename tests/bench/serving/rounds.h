// Series that are measured in turns: what disturbs the machine for a while
// disturbs all of them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace attn {

// One thing that is measured. Thread-compatible.
struct BenchSeries {
  BenchSeries(std::string series_name,
              std::function<double()> measure_once = nullptr)
      : name(std::move(series_name)), measure(std::move(measure_once)) {}

  std::string name;
  // One value, of any unit. Null: the row measures it by itself.
  std::function<double()> measure;
  // Of each round.
  std::vector<double> values;
};

// A round of short calls is cut into so many: what passes in tens of
// milliseconds then disturbs both sides of a ratio too.
inline constexpr int kSlices = 8;

// Measures each series once a round; every second round begins at the end, so
// that who comes after whom does not matter either. Then lets the measures go,
// and with them the connections that they hold.
void MeasureInRounds(int rounds, std::vector<BenchSeries>& series);

}  // namespace attn
