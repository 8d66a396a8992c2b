// V made ready for matrix products, once for all jobs of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"

namespace attn {

// V of one KV head of a batch entry, in a plane of memory that the caller owns.
// 16-bit and quantized V is widened to f32 there, and so is V whose rows are no
// multiple of a unit of columns that the product needs. Every V is searched for
// elements that are infinite or NaN: 0 * NaN is NaN, so that a product over all
// keys would carry them from a key of weight 0 to the output. Such a chunk's
// matrix has 0 in their place, and the kernel adds their terms itself.
//
// Used in two phases: Prepare() for each chunk, then the rest. Thread-safe:
// const; chunks are disjoint.
class PreparedValues {
 public:
  // Rows of Values() have a multiple of `column_unit` elements, those beyond
  // d_v 0.
  PreparedValues(const Problem& problem, int64_t chunk_keys,
                 int64_t column_unit);

  // Bytes of a plane, a multiple of the arena's alignment.
  size_t plane_bytes() const { return flags_bytes_ + key_bytes_ + wide_bytes_; }
  // Elements of a row of Values().
  int64_t width() const { return width_; }
  // Elements of the `scratch` that Prepare() and Values() take.
  int64_t chunk_elements() const;

  // One chunk; adds to the call's counters.
  void Prepare(const KernelCall& call, const KeyChunk& chunk, std::byte* plane,
               float* scratch) const;

  // The rows of a part of a chunk as a matrix: in place if possible, else
  // copied to `scratch`.
  ConstMatrix Values(const KernelCall& call, const KeyChunk& part,
                     const std::byte* plane, float* scratch) const;

  // Whether V has infinite or NaN elements in the chunk that holds `key`, and
  // in a key of such a chunk.
  bool ChunkIsClean(const std::byte* plane, int64_t key) const {
    return reinterpret_cast<const uint8_t*>(plane)[key / chunk_keys_] == 0;
  }
  bool KeyIsClean(const std::byte* plane, int64_t key) const {
    return reinterpret_cast<const uint8_t*>(plane + flags_bytes_)[key] == 0;
  }

 private:
  float* Wide(std::byte* plane, int64_t key) const {
    return reinterpret_cast<float*>(plane + flags_bytes_ + key_bytes_) +
           key * width_;
  }
  void Load(const HeadRows& v, const KeyChunk& part, float* rows) const;

  int64_t v_dim_;
  int64_t chunk_keys_;
  int64_t kv_length_;
  int64_t width_;
  bool widens_;
  size_t flags_bytes_;  // of the chunks
  size_t key_bytes_;    // of the keys' flags
  size_t wide_bytes_ = 0;
};

}  // namespace attn
