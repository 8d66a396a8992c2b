// Which of the visible keys a row keeps, judged by its final logits.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <variant>

#include "engine/core/spec_value.h"

namespace attn {

enum class TieRule : uint8_t {
  kLowestIndex = 1,  // exactly k keys
  kKeepAll = 2,      // every key that equals the k-th
};

// The k largest logits; k > visible keeps all.
struct TopKSparsifier {
  int64_t k = 1;
  TieRule ties = TieRule::kLowestIndex;
  auto Fields() const { return std::tie(k, ties); }
};

// Logits >= min_logit, and >= row maximum - below_max. At least one is set.
struct ThresholdSparsifier {
  std::optional<double> min_logit;
  std::optional<double> below_max;
  auto Fields() const { return std::tie(min_logit, below_max); }
};

// The fewest keys, largest softmax weight first (lowest index on ties), whose
// softmax weights sum to p or more; 0 < p <= 1. Holtzman et al. 2020.
struct TopPSparsifier {
  double p = 1;
  auto Fields() const { return std::tie(p); }
};

using SparsifierSpec =
    std::variant<TopKSparsifier, ThresholdSparsifier, TopPSparsifier>;

}  // namespace attn
