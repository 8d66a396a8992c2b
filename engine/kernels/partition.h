// How a call is cut into jobs: by its shape alone, so that its bits depend on
// nothing else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/call_view.h"
#include "engine/tile/tile.h"

namespace attn {

// What a query and a key take beside their width, as multiplications: an
// exponential. So heads without width are work as well.
inline constexpr int64_t kLeastPairWidth = 16;

// Query rows of one head. Rows from `valid_rows` on lie beyond the length.
struct RowBlock {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row_begin = 0;
  int64_t rows = 0;
  int64_t valid_rows = 0;
};

// Blocks of `block_rows` query rows of every head. Thread-safe: const.
class RowBlocks {
 public:
  RowBlocks(const AttentionShape& shape, int64_t block_rows)
      : shape_(shape),
        block_rows_(block_rows),
        per_head_((shape.q_length + block_rows - 1) / block_rows) {}

  int64_t block_rows() const { return block_rows_; }
  int64_t count() const { return shape_.batch * shape_.q_heads * per_head_; }
  RowBlock At(const CallView& call, int64_t job) const {
    RowBlock block;
    const int64_t plane = job / per_head_;
    block.batch = plane / shape_.q_heads;
    block.head = plane % shape_.q_heads;
    block.row_begin = job % per_head_ * block_rows_;
    block.rows = std::min(block_rows_, shape_.q_length - block.row_begin);
    block.valid_rows = std::clamp<int64_t>(
        call.q_length(block.batch) - block.row_begin, 0, block.rows);
    return block;
  }

 private:
  AttentionShape shape_;
  int64_t block_rows_;
  int64_t per_head_;
};

// Keys of one KV head, those beyond the length left out; may be empty.
struct KeyChunk {
  int64_t batch = 0;
  int64_t kv_head = 0;
  int64_t key_begin = 0;
  int64_t keys = 0;
};

// Calls `visit` with the part of every chunk that lies in `range`.
template <typename Visit>
void ForEachChunkIn(KeyRange range, int64_t chunk_keys, const Visit& visit) {
  for (int64_t key = range.begin; key < range.end;) {
    const int64_t end =
        std::min((key / chunk_keys + 1) * chunk_keys, range.end);
    visit(KeyRange{key, end});
    key = end;
  }
}

// Chunks of `chunk_keys` keys of every KV head. Thread-safe: const.
class KeyChunks {
 public:
  KeyChunks(const AttentionShape& shape, int64_t chunk_keys)
      : shape_(shape),
        chunk_keys_(chunk_keys),
        per_head_((shape.kv_length + chunk_keys - 1) / chunk_keys) {}

  int64_t chunk_keys() const { return chunk_keys_; }
  int64_t count() const { return shape_.batch * shape_.kv_heads * per_head_; }
  KeyChunk At(const CallView& call, int64_t job) const {
    KeyChunk chunk;
    const int64_t plane = job / per_head_;
    chunk.batch = plane / shape_.kv_heads;
    chunk.kv_head = plane % shape_.kv_heads;
    chunk.key_begin = job % per_head_ * chunk_keys_;
    chunk.keys = std::clamp<int64_t>(
        call.kv_length(chunk.batch) - chunk.key_begin, 0, chunk_keys_);
    return chunk;
  }
  // The job of the chunk that holds `key`.
  int64_t Find(int64_t batch, int64_t kv_head, int64_t key) const {
    return (batch * shape_.kv_heads + kv_head) * per_head_ + key / chunk_keys_;
  }

 private:
  AttentionShape shape_;
  int64_t chunk_keys_;
  int64_t per_head_;
};

}  // namespace attn
