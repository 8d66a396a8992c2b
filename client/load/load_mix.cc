#include "client/load/load_mix.h"

#include <algorithm>
#include <numeric>

namespace attn {
namespace {

// The output function of SplitMix64 (Steele, Lea and Flood, 2014): neighbours
// give unrelated numbers.
uint64_t Scramble(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

}  // namespace

LoadMix::LoadMix(const std::vector<double>& weights, uint64_t seed)
    : upper_(weights), seed_(Scramble(seed)) {
  if (upper_.empty()) upper_ = {1};
  const double sum = std::accumulate(upper_.begin(), upper_.end(), 0.0);
  double passed = 0;
  for (double& bound : upper_) {
    passed += bound / sum;
    bound = passed;
  }
  // Whatever rounding made of the sum.
  upper_.back() = 1;
}

size_t LoadMix::ClassOf(int64_t sequence) const {
  if (upper_.size() == 1) return 0;
  constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15;
  const uint64_t bits =
      Scramble(seed_ + (static_cast<uint64_t>(sequence) + 1) * kGoldenGamma);
  // In [0, 1).
  const double uniform = static_cast<double>(bits >> 11) * 0x1.0p-53;
  const auto found = std::upper_bound(upper_.begin(), upper_.end(), uniform);
  return static_cast<size_t>(found - upper_.begin());
}

}  // namespace attn
