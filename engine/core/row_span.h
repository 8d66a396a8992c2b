// Rows of one head of q or of k.
#pragma once

#include <cstdint>

namespace attn {

// `head` is a query head for rows of q and a KV head for rows of k.
struct RowSpan {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

}  // namespace attn
