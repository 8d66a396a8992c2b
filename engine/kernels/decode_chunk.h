// A few query rows on their way over a chunk of keys, whose K and V are read
// once, in order, where they lie.
#pragma once

#include <cstdint>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/runtime/arena.h"
#include "engine/tile/online_rows.h"
#include "engine/tile/row_stream.h"

namespace attn {

// Query rows of a KV head, at most: one bit of a word for each.
inline constexpr int64_t kMaxDecodeRows = 64;

// What all chunks of a call share. Borrows.
struct DecodeStages {
  const AttentionShape& shape;
  const Pipeline& pipeline;
  // Whether logits beyond F16 are counted.
  bool counts_half;
  // Keys of a chunk: part of the result's bits.
  int64_t chunk_keys;
  // Whether queries and keys are compared as the bfloat16 that they are.
  bool has_pairs;

  // Query rows of a KV head, those of one head after the other.
  int64_t rows() const { return shape.group_size() * shape.q_length; }
  // From one row of scores to the next: rows begin in different cache sets.
  int64_t score_stride() const { return chunk_keys + kStreamFloats; }
  // Elements of a row of sums.
  int64_t sum_stride() const { return WholeFloats(shape.v_dim); }
};

// What a chunk leaves for its rows: the state of their softmax, and the values
// weighted by exp(x - max) of it.
struct DecodePart {
  OnlineRow* states = nullptr;  // [rows]
  float* sums = nullptr;        // [rows, sum_stride]
};

// The memory of one chunk; what the problem does not need has no elements.
struct DecodeScratch {
  float* loaded = nullptr;    // query rows of a head
  float* prepared = nullptr;  // the same
  float* queries = nullptr;   // [rows, padded width]
  uint16_t* pairs = nullptr;  // the same in bfloat16
  float* scores = nullptr;    // [rows, score_stride]
  float* raw = nullptr;       // the same
  float* factors = nullptr;   // [rows]
  // Of keys or values that cannot be read in place.
  float* copied = nullptr;
  float* prepared_keys = nullptr;
  uint16_t* copied_pairs = nullptr;
  float* scales = nullptr;  // [chunk_keys], of quantized keys or values
  // [chunk_keys]: whether a value is infinite or NaN, and the rows that do not
  // see its key, bit r for row r.
  uint8_t* dirty = nullptr;
  uint64_t* excluded = nullptr;

  // Arena bytes that Take() takes.
  static size_t Bytes(const DecodeStages& stages);
  static DecodeScratch Take(const DecodeStages& stages, Arena& arena);
};

// Thread-compatible; one job each.
class DecodeChunk {
 public:
  DecodeChunk(const DecodeStages& stages, const KernelCall& call,
              const KeyChunk& chunk, const DecodePart& part,
              const DecodeScratch& scratch);

  // Leaves the part of every row within the length.
  void Run();

 private:
  void LoadQueries();
  void FindKeys();
  void Attend();
  void Score();
  void ScoreCopies(const HeadRows& k);
  void ScorePairs(const HeadRows& k);
  void CountKeys(const HeadRows& k) const;
  void FinishScores();
  void ScaleScores(const HeadRows& scaled, bool clean);
  void Absorb();
  void AddValues();
  // Where V has infinite or NaN elements: 0 * NaN is NaN.
  void FindDirty();
  void NoteExcluded();
  void AddNonFinite(const HeadRows& v);

  int64_t rows() const { return stages_.shape.group_size() * valid_; }
  int64_t keys() const { return keys_.end - keys_.begin; }
  // Factor of the scores of a query head of the group.
  float ScaleOf(int64_t member) const;
  // The tile of one.
  Tile<float> TileOf(int64_t member) const;
  float* ScoresOf(int64_t row) const {
    return scratch_.scores + row * stages_.score_stride();
  }

  const DecodeStages& stages_;
  const KernelCall& call_;
  const CallView view_;
  const KeyChunk chunk_;
  const DecodePart part_;
  const DecodeScratch scratch_;
  const bool wants_output_;
  // Query rows of a head within the length.
  int64_t valid_ = 0;
  // stages_.has_pairs, but for a scale of 0: it makes numbers of scores that
  // overflow.
  bool uses_pairs_ = false;
  // What some row may see of the chunk.
  KeyRange keys_;
  // Whether V is known to have infinite or NaN elements, which are kept out of
  // the products.
  bool is_careful_ = false;
};

}  // namespace attn
