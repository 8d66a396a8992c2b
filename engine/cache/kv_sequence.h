// Keys and values of one layer of one session: what decoding reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/kv_block_pool.h"
#include "engine/cache/kv_layout.h"
#include "engine/cache/kv_rows.h"
#include "engine/core/kv_blocks.h"
#include "engine/core/tensor_view.h"

namespace attn {

// How far a sequence goes and what of it is gone; a value. Blocks
// [released_begin, released_end) are gone; both are 0 if none is.
struct KvExtent {
  int64_t length = 0;
  int64_t released_begin = 0;
  int64_t released_end = 0;

  // INVALID_ARGUMENT unless a sequence may be so.
  absl::Status Check() const;
  // Blocks that are there; those that are not.
  int64_t held_blocks() const;
  int64_t released_blocks() const { return released_end - released_begin; }
  // Of a sequence whose blocks have so many bytes: in memory, and as Save()
  // gives it. INT64_MAX if they are more.
  int64_t held_bytes(int64_t block_bytes) const;
  int64_t saved_bytes(int64_t block_bytes) const;

  friend bool operator==(const KvExtent&, const KvExtent&) = default;
};

// Takes, or gives, the next bytes of a sequence. What it fails with is what
// Save() and Load() fail with.
using KvByteSink =
    std::function<absl::Status(const std::byte* bytes, size_t size)>;
using KvByteSource = std::function<absl::Status(std::byte* bytes, size_t size)>;

// Grows at its end, is cut there, and is forked: a fork shares all blocks, and
// who writes to a shared block copies it first. Rows that were stored stay as
// they are, whatever forks do.
//
// Invariants: length() <= 2^40. Blocks are there for all tokens but released
// ones, which are one range of whole blocks; behind it stands at least one
// block. Blocks behind the last token are spare: Reserve() took them.
//
// Thread-compatible. Forks are sequences of their own, which other threads may
// use at the same time.
class KvSequence {
 public:
  // `pool` must outlive it.
  KvSequence(const KvLayout& layout, KvBlockPool& pool);

  // Tokens that it has; released ones count.
  int64_t length() const { return length_; }
  const KvLayout& layout() const { return layout_; }

  // Takes what Append() of `tokens` needs: new blocks, and a copy of the last
  // one if it is shared. What was reserved stays so until it is used,
  // truncated, or shared by a fork. RESOURCE_EXHAUSTED leaves the sequence as
  // it was.
  absl::Status Reserve(int64_t tokens);
  // Stores k [1, Hkv, n, k_dim] and v [1, Hkv, n, v_dim], of any layout and
  // float type, after Reserve(n); cannot fail, allocates nothing, and gives the
  // same bytes however tokens are divided among calls. Numbers are rounded to
  // the layout's type to nearest even, F64 by way of F32; to I8 as kv_rows.h
  // says. `prepare` may be empty.
  void Append(const TensorView& k, const TensorView& v,
              const PrepareKeys& prepare);

  // Forgets what lies at `length` and beyond, and spare blocks.
  // FAILED_PRECONDITION, which changes nothing, if any of the `window` rows in
  // front of it (0: of all rows) was released. length() or more cuts nothing
  // and is never refused.
  absl::Status Truncate(int64_t length, int64_t window);
  // Lets go of whole blocks of tokens in [keep, end), which nobody will see
  // again. One whole block in front of that of `end` is kept, so that a
  // rollback of a few tokens finds its window. What neither touches nor
  // overlaps the range that was released before stays.
  void Release(int64_t keep, int64_t end);

  KvExtent extent() const;
  // Hands over the bytes of each block that is there as they are stored, in
  // order, rows behind the last token as zeros; then a zero for each released
  // block, so that a short file never stands for a long list.
  // extent().saved_bytes() in all: spare blocks are not among them.
  absl::Status Save(const KvByteSink& sink) const;
  // Gives an empty sequence the blocks of an extent, which hold anything until
  // Load(). INVALID_ARGUMENT as Check(), RESOURCE_EXHAUSTED as Reserve(); then
  // it is empty still.
  absl::Status ReserveExtent(const KvExtent& extent);
  // Fills them, in the order of Save(). If that fails, the rows hold anything.
  absl::Status Load(const KvByteSource& source);

  // What the kernels read; valid until the sequence changes. A released block
  // is some other block.
  KvBlocks Describe() const;
  // Of its blocks, shared and spare ones too.
  int64_t bytes() const;
  // Of its blocks that no other sequence holds.
  int64_t own_bytes() const;

 private:
  // As many blocks as hold `tokens`, each from the next token's on its own.
  // Throws std::bad_alloc; then nothing has changed.
  absl::Status ReserveBlocks(int64_t tokens);
  // Puts the first of `fresh` where a block is missing or shared.
  void PlaceBlocks(int64_t needed, std::vector<KvBlock> fresh);
  // Dies unless Reserve() has made room for them.
  void CheckReserved(const TensorView& k, const TensorView& v) const;
  // Lets pointers_ name a block that is there for those that are not.
  void PointReleased();
  void PlaceExtent(const KvExtent& extent, std::vector<KvBlock> fresh);

  KvLayout layout_;
  KvBlockPool* pool_;
  int64_t length_ = 0;
  // Blocks [0, released_begin_) and from released_end_ on are there.
  int64_t released_begin_ = 0;
  int64_t released_end_ = 0;
  std::vector<KvBlock> blocks_;
  // Those of blocks_, as KvBlocks wants them.
  std::vector<const std::byte*> pointers_;
  // For rows that are too wide for the stack.
  std::vector<float> wide_row_;
};

}  // namespace attn
