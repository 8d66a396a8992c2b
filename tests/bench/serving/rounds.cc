#include "tests/bench/serving/rounds.h"

#include <cstddef>

namespace attn {

void MeasureInRounds(int rounds, std::vector<BenchSeries>& series) {
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < series.size(); ++i) {
      const bool backwards = round % 2 == 1;
      BenchSeries& each = series[backwards ? series.size() - 1 - i : i];
      each.values.push_back(each.measure());
    }
  }
  for (BenchSeries& each : series) each.measure = nullptr;
}

}  // namespace attn
