// Which token comes next.
#pragma once

#include <cstdint>
#include <random>

#include "absl/types/span.h"

namespace attn {

// The same seed gives the same text on every machine that computes the same
// logits. Thread-compatible.
class TokenSampler {
 public:
  // Temperature 0: always the largest logit, the first of equals; otherwise a
  // draw with the weights exp(logit / temperature).
  TokenSampler(double temperature, uint64_t seed)
      : temperature_(temperature), random_(seed) {}

  int32_t Next(absl::Span<const float> logits);

 private:
  double temperature_;
  std::mt19937_64 random_;
};

}  // namespace attn
