// The attention of a story model by its formula, without a server.
#pragma once

#include <cstdint>
#include <vector>

#include "client/examples/storyteller/model.h"

namespace attn {

// Keeps k and v of every layer, as a session does. In double.
// Thread-compatible.
class LocalAttention {
 public:
  explicit LocalAttention(const LlamaSizes& sizes)
      : sizes_(sizes), layers_(static_cast<size_t>(sizes.layers)) {}

  // LlamaAttention's contract.
  std::vector<float> Attend(const LlamaRows& rows);

 private:
  // [tokens, kv_heads, head_dim]; k is rotated.
  struct Cache {
    std::vector<double> k;
    std::vector<double> v;
  };

  // Row `row` of [tokens, heads, head_dim] turned for `position`.
  std::vector<double> Rotated(const std::vector<float>& rows, int64_t row,
                              int64_t heads, int64_t position) const;
  // What one query sees of a KV head's first `keys` keys.
  std::vector<double> Mix(const double* q, const Cache& cache, int64_t kv_head,
                          int64_t keys) const;

  LlamaSizes sizes_;
  std::vector<Cache> layers_;
};

}  // namespace attn
