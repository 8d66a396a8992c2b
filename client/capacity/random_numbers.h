// The same random numbers on every machine, unlike the distributions of
// <random>.
#pragma once

#include <cstdint>
#include <random>

namespace attn {

// Thread-compatible.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : bits_(seed) {}

  // Above 0, up to 1.
  double Uniform();
  // From 0 to below `count`, which is below 2^32.
  int64_t Below(int64_t count);
  // Mean 1.
  double Exponential();
  // Mean 1 and this squared coefficient of variation.
  double LogNormal(double variation);

 private:
  std::mt19937_64 bits_;
};

}  // namespace attn
