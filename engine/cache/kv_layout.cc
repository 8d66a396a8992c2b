#include "engine/cache/kv_layout.h"

#include <algorithm>

namespace attn {
namespace {

constexpr int64_t kAlignment = 64;
// No memory holds as much, and a few of them still fit an int64_t.
constexpr int64_t kEndlessBytes = int64_t{1} << 60;

// Extents come from clients: what would overflow stays too large for any
// budget.
int64_t BytesOf(int64_t a, int64_t b, size_t element_bytes) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(a, b, &bytes) ||
      __builtin_mul_overflow(bytes, kKvBlockTokens, &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<int64_t>(element_bytes),
                             &bytes)) {
    return kEndlessBytes;
  }
  bytes = std::min(bytes, kEndlessBytes);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t KvLayout::v_offset() const {
  return BytesOf(kv_heads, k_dim, SizeOf(dtype));
}

int64_t KvLayout::k_scale_offset() const {
  return v_offset() + BytesOf(kv_heads, v_dim, SizeOf(dtype));
}

int64_t KvLayout::v_scale_offset() const {
  return k_scale_offset() +
         (quantized() ? BytesOf(kv_heads, 1, sizeof(float)) : 0);
}

int64_t KvLayout::block_bytes() const {
  const int64_t bytes = v_scale_offset() +
                        (quantized() ? BytesOf(kv_heads, 1, sizeof(float)) : 0);
  return std::max(bytes, kAlignment);
}

}  // namespace attn
