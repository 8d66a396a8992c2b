// One block of query rows on its way over the keys, tile by tile, with the
// running state of a softmax (Dao et al. 2022, algorithm 1).
#pragma once

#include <array>
#include <cstdint>

#include "engine/kernels/kernel.h"
#include "engine/kernels/packed_keys.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/kernels/prepared_values.h"
#include "engine/runtime/arena.h"
#include "engine/tile/online_rows.h"

namespace attn {

// Query rows of a block, at most; keys of a tile.
inline constexpr int64_t kFlashRows = 64;
inline constexpr int64_t kFlashKeys = 512;
// Keys of a chunk of PackedKeys and PreparedValues: whole tiles.
inline constexpr int64_t kFlashChunkKeys = 512;

// What all blocks of a call share. Borrows.
struct FlashStages {
  const AttentionShape& shape;
  const Pipeline& pipeline;
  const PackedKeys& keys;
  const PreparedValues& values;
  // Whether logits beyond F16 are counted.
  bool counts_half;
};

// The memory of one block; what the problem does not need has no elements.
struct FlashScratch {
  float* queries = nullptr;    // [kFlashRows, q_dim]
  float* prepared = nullptr;   // [kFlashRows, PackedKeys::width()]
  uint16_t* narrow = nullptr;  // the same of KeyFormat::kBf16Rows
  float* scores = nullptr;     // [kFlashRows, kFlashKeys]
  float* raw = nullptr;        // the same
  float* output = nullptr;     // [kFlashRows, PreparedValues::width()]
  float* values = nullptr;     // of a tile that cannot be read in place
  float* value = nullptr;      // one
  OnlineRow* states = nullptr;
  float* factors = nullptr;
  // For keys of a tile with infinite or NaN values: bit r is set if row r does
  // not see the key.
  uint64_t* excluded = nullptr;

  // Arena bytes that Take() takes.
  static size_t Bytes(const FlashStages& stages);
  static FlashScratch Take(const FlashStages& stages, Arena& arena);
};

// Packed K and V of the block's KV head.
struct FlashPlanes {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  // Of the values, if statistics are asked for; else null.
  const float* norms = nullptr;
};

// Thread-compatible; one job each.
class FlashBlock {
 public:
  FlashBlock(const FlashStages& stages, const KernelCall& call,
             const RowBlock& block, const FlashPlanes& planes,
             const FlashScratch& scratch);

  // Writes the block's outputs and statistics.
  void Run();

 private:
  // Rows [row, row + rows) of the block, none of which sees a key outside.
  struct Band {
    int64_t row = 0;
    int64_t rows = 0;
    KeyRange keys;
  };
  // As many rows as the products have in registers: where masks differ from
  // row to row, their keys are skipped in such steps.
  static constexpr int64_t kBandRows = 6;
  static constexpr int64_t kMaxBands = (kFlashRows + kBandRows - 1) / kBandRows;

  void FindBands();
  // visit(band) for the bands cut to `keys`, in order; those that then see the
  // same keys, as nearly all do, are one.
  template <typename Visit>
  void ForEachBandIn(KeyRange keys, Visit visit) const;
  void LoadQueries();
  // The steps of the tile of kFlashKeys keys that begins with `tile`.
  void Walk(int64_t tile);
  void Score(int64_t tile);
  void ScoreOfBf16(int64_t tile);
  void Absorb(int64_t row, const Tile<float>& scores);
  void FinishScores(const Tile<float>& scores);
  // `row` is the tile's first in the block.
  void AddValues(int64_t row, const Tile<float>& weights, ConstMatrix values);
  void NoteExcluded(int64_t row, const Tile<float>& scores);
  void AddNonFinite(int64_t row, const Tile<float>& weights);
  void Complete();

  // The scores of a band that has been cut to a tile.
  Tile<float> TileOf(const Band& band, int64_t tile) const;
  KeyChunk Part(KeyRange range) const;

  const FlashStages& stages_;
  const KernelCall& call_;
  const CallView view_;
  const RowBlock block_;
  const FlashPlanes planes_;
  const FlashScratch scratch_;
  const float* queries_ = nullptr;
  bool wants_output_;
  // Whether V of the tile at hand has infinite or NaN elements.
  bool is_dirty_ = false;
  KeyRange visible_;
  std::array<Band, kMaxBands> bands_;
  int64_t band_count_ = 0;
};

}  // namespace attn
