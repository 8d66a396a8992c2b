// K and V made ready for matrix products, once for all jobs of a call.
#pragma once

#include <cstdint>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"

namespace attn {

// 16-bit K and V are widened to f32 in the call's scratch, and so are keys that
// the pipeline transforms or projects, or whose score is no matrix product.
// Every V is searched for elements that are infinite or NaN: 0 * NaN is NaN, so
// that a product over all keys would carry them from a key of weight 0 to the
// output. Such a chunk's matrix has 0 in their place, and the kernel adds their
// terms itself.
//
// Used in two phases: Prepare() for each chunk, then the rest. Thread-safe:
// const; chunks are disjoint.
class PreparedKeys {
 public:
  // Borrows `pipeline`.
  PreparedKeys(const Problem& problem, const Pipeline& pipeline,
               int64_t chunk_keys);

  const KeyChunks& chunks() const { return chunks_; }
  size_t call_scratch_bytes() const;
  int64_t key_width() const { return key_width_; }
  // Elements of the `scratch` that Prepare(), Keys() and Values() take.
  int64_t chunk_elements() const;

  void Prepare(const KernelCall& call, int64_t job, float* scratch) const;

  // Rows of K, and of V, of a part of a chunk as a matrix: in place if
  // possible, else copied to `scratch`.
  ConstMatrix Keys(const KernelCall& call, const KeyChunk& part,
                   float* scratch) const;
  ConstMatrix Values(const KernelCall& call, const KeyChunk& part,
                     float* scratch) const;
  // Whether Keys() needs no scratch, so that more than a chunk may be asked.
  bool KeysInPlace(const KernelCall& call) const;

  // Whether V has infinite or NaN elements in the chunk that holds `part`, and
  // in a key.
  bool ChunkIsClean(const KernelCall& call, const KeyChunk& part) const;
  bool KeyIsClean(const KernelCall& call, const KeyChunk& part,
                  int64_t key) const;

 private:
  // The parts of the call's scratch.
  float* WideKeys(const KernelCall& call, const KeyChunk& part) const;
  float* WideValues(const KernelCall& call, const KeyChunk& part) const;
  int64_t* ChunkFlags(const KernelCall& call) const;
  uint8_t* KeyFlags(const KernelCall& call, const KeyChunk& part) const;

  int64_t PrepareKeys(const KernelCall& call, const KeyChunk& chunk,
                      float* scratch) const;
  int64_t PrepareValues(const KernelCall& call, const KeyChunk& chunk,
                        float* scratch) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  bool widen_keys_;
  bool widen_values_;
  // Of a row of Keys().
  int64_t key_width_;
  KeyChunks chunks_;
  // Bytes of the parts of the call's scratch.
  size_t chunk_flags_bytes_;
  size_t keys_bytes_ = 0;
  size_t values_bytes_ = 0;
  size_t key_flags_bytes_ = 0;
};

}  // namespace attn
