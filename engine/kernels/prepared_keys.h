// K and V made ready for matrix products, once for all jobs of a call.
#pragma once

#include <cstdint>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/packed_keys.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_values.h"

namespace attn {

// K of scores that are matrix products is packed in panels, as PackedKeys has
// it; other K becomes rows of f32 that the pipeline has transformed and
// projected. V as PreparedValues has it, its rows in whole column units.
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

  // The panel that holds the part's first key; if is_packed().
  bool is_packed() const { return is_packed_; }
  const float* Panel(const KernelCall& call, const KeyChunk& part) const;
  // Rows of K, of any number of chunks; if not is_packed().
  ConstMatrix Keys(const KernelCall& call, const KeyChunk& part) const;
  // Rows of V of a part of a chunk: in place if possible, else copied to
  // `scratch`.
  ConstMatrix Values(const KernelCall& call, const KeyChunk& part,
                     float* scratch) const;
  int64_t value_width() const { return values_.width(); }

  // Whether V has infinite or NaN elements in the chunk that holds `part`, and
  // in a key.
  bool ChunkIsClean(const KernelCall& call, const KeyChunk& part) const;
  bool KeyIsClean(const KernelCall& call, const KeyChunk& part,
                  int64_t key) const;

 private:
  int64_t PlaneOf(const KeyChunk& part) const {
    return part.batch * shape_.kv_heads + part.kv_head;
  }
  // In the call's scratch.
  std::byte* KeyPlane(const KernelCall& call, const KeyChunk& part) const;
  std::byte* ValuePlane(const KernelCall& call, const KeyChunk& part) const;
  float* Rows(const KernelCall& call, const KeyChunk& part) const;
  void PrepareRows(const KernelCall& call, const KeyChunk& chunk,
                   float* scratch) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  bool is_packed_;
  // Of a row of Keys().
  int64_t key_width_;
  KeyChunks chunks_;
  PackedKeys packed_;
  PreparedValues values_;
  size_t key_plane_bytes_;
};

}  // namespace attn
