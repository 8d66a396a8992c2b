// What is known of each row of weights once it has been normalised.
#pragma once

#include <cmath>
#include <cstdint>

namespace attn {

// Statistics of one query row of one head. A row with no visible key has the
// values below.
struct RowStatistics {
  // Natural logarithm of the sum of exponentials over the visible keys;
  // -infinity too where a normalizer has no logits (linear attention).
  double lse = -__builtin_huge_val();
  // The same with the sinks of the normalizer; equal to lse without one.
  double lse_with_sink = -__builtin_huge_val();
  // Shannon entropy of the weights in nats; exactly 0 for one-hot.
  double entropy = 0;
  double peak_weight = 0;
  // Key of the largest weight, the lowest on ties; -1 for an empty row.
  int64_t top_key = -1;
  int64_t visible_keys = 0;
  // Final logits of the visible keys; 0 for an empty row.
  double logit_min = 0;
  double logit_max = 0;
  // Of the same; the standard deviation is that of the population. These and
  // the next are 0 unless OutputSelection::statistics asks for them.
  double logit_mean = 0;
  double logit_std = 0;
  // Sum over the keys of |weight| * |v|, |v| the Euclidean norm.
  double contribution = 0;
};

// Entropy over ln(visible keys), its largest value; 0 below two keys.
inline double EntropyRatio(const RowStatistics& row) {
  return row.visible_keys < 2
             ? 0
             : row.entropy / std::log(static_cast<double>(row.visible_keys));
}

// exp(entropy): among how many keys the weights are spread. 0 for an empty row.
inline double EffectiveKeys(const RowStatistics& row) {
  return row.visible_keys == 0 ? 0 : std::exp(row.entropy);
}

}  // namespace attn
