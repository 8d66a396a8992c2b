// What a stage's hook may see of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Borrows the call; valid while it runs. Thread-safe: read only.
struct CallView {
  const AttentionShape& shape;
  const AttentionArgs& args;

  // Rows and keys of a batch entry that count.
  int64_t q_length(int64_t batch) const {
    return args.q_lengths.empty() ? q_extent(batch)
                                  : args.q_lengths[static_cast<size_t>(batch)];
  }
  int64_t kv_length(int64_t batch) const {
    return args.kv_lengths.empty()
               ? kv_extent(batch)
               : args.kv_lengths[static_cast<size_t>(batch)];
  }
  // Sq and Sk of a batch entry, padding included: those of its sequence in a
  // ragged call.
  int64_t q_extent(int64_t batch) const {
    return args.ragged() ? Between(args.q_offsets, batch) : shape.q_length;
  }
  int64_t kv_extent(int64_t batch) const {
    return args.ragged() ? Between(args.kv_offsets, batch) : shape.kv_length;
  }
  // Key position of query row 0 for a mask: 0 (top left) or kv_length - Sq.
  int64_t diagonal(int64_t batch, Alignment alignment) const {
    return alignment == Alignment::kBottomRight
               ? kv_length(batch) - q_extent(batch)
               : 0;
  }
  // The same for biases and programs, which know no lengths: Sk - Sq.
  int64_t position_offset(int64_t batch) const {
    return kv_extent(batch) - q_extent(batch);
  }

 private:
  static int64_t Between(const std::vector<int64_t>& offsets, int64_t batch) {
    const auto b = static_cast<size_t>(batch);
    return offsets[b + 1] - offsets[b];
  }
};

}  // namespace attn
