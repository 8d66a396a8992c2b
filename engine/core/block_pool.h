// Large blocks of memory that are used again instead of being mapped anew: at
// 16 MiB the page faults of fresh memory cost as much as a copy.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace attn {

// A block is handed out again to whoever wants about as much: there are eight
// sizes between two powers of two, so that at most an eighth of a block is of
// no use.
//
// Invariant: what is idle is mapped only as long as all blocks together are
// within the limit. Thread-safe; std::mutex, because core stands below runtime.
class BlockPool {
 public:
  explicit BlockPool(size_t max_bytes) : max_bytes_(max_bytes) {}
  // All blocks must have come back.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // At least `size` bytes that hold anything. They begin at a page, and lie in
  // huge pages from 4 MiB on. Throws std::bad_alloc.
  std::byte* Take(size_t size);
  // Takes a block back; needs no memory for it. False: it is not one of Take().
  bool Give(void* block);
  // Gives what is idle back to the system.
  void Trim();
  void set_max_bytes(size_t max_bytes);

  struct Usage {
    size_t in_use_bytes = 0;
    size_t idle_bytes = 0;
  };
  Usage usage() const;

 private:
  struct Block {
    std::byte* start = nullptr;
    size_t capacity = 0;
    // When it came back: how many came back before it.
    size_t since = 0;
  };
  // By address those in use, by capacity those that are idle: of one type, so
  // that a node can move from one to the other, which cannot fail.
  using Blocks = std::multimap<size_t, Block>;
  using Node = Blocks::node_type;

  static Node MapNew(size_t capacity);
  // Empty: none of that size is idle.
  Node TakeIdle(size_t capacity);
  std::byte* Use(Node node);
  // Moves the longest idle blocks to `surplus` until all are within the limit.
  void Shrink(size_t limit, Blocks& surplus);
  static void Unmap(const Blocks& blocks);

  mutable std::mutex mutex_;
  size_t max_bytes_;
  size_t clock_ = 0;
  size_t idle_bytes_ = 0;
  size_t in_use_bytes_ = 0;
  // In each capacity the longest idle comes first.
  Blocks idle_;
  Blocks in_use_;
};

// Where large AlignedBuffers come from: one pool for the process, as malloc is.
// It keeps 256 MiB unless it is told otherwise.
BlockPool& BufferPool();

}  // namespace attn
