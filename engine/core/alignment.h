// Where a call's diagonal lies.
#pragma once

#include <cstdint>

namespace attn {

// Key position p(i) of query row i: i (top left) or i + kv_length - Sq (bottom
// right). kUnspecified is legal only where both agree.
enum class Alignment : uint8_t {
  kUnspecified = 0,
  kTopLeft = 1,
  kBottomRight = 2,
};

}  // namespace attn
