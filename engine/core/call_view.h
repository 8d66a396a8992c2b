// What a stage's hook may see of a call.
#pragma once

#include <cstdint>

#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Borrows the call; valid while it runs. Thread-safe: read only.
struct CallView {
  const AttentionShape& shape;
  const AttentionArgs& args;

  int64_t q_length(int64_t batch) const {
    return args.q_lengths.empty() ? shape.q_length
                                  : args.q_lengths[static_cast<size_t>(batch)];
  }
  int64_t kv_length(int64_t batch) const {
    return args.kv_lengths.empty()
               ? shape.kv_length
               : args.kv_lengths[static_cast<size_t>(batch)];
  }
  // Key position of query row 0: 0 (top left) or kv_length - Sq.
  int64_t diagonal(int64_t batch, Alignment alignment) const {
    return alignment == Alignment::kBottomRight
               ? kv_length(batch) - shape.q_length
               : 0;
  }
};

}  // namespace attn
