#include "client/examples/storyteller/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace attn {

int32_t TokenSampler::Next(absl::Span<const float> logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const auto best = static_cast<int32_t>(largest - logits.begin());
  if (temperature_ == 0) return best;
  std::vector<double> below;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - double{*largest}) /
                    temperature_);
    below.push_back(sum);
  }
  // 53 bits, as a double has; the distributions of the standard library differ
  // from one to the next.
  constexpr int kUnusedBits = 11;
  const double draw =
      std::ldexp(static_cast<double>(random_() >> kUnusedBits), -53) * sum;
  const auto drawn = std::upper_bound(below.begin(), below.end(), draw);
  if (drawn == below.end()) return best;
  return static_cast<int32_t>(drawn - below.begin());
}

}  // namespace attn
