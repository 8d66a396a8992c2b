// Writes what a job found out about its block of rows to the call's outputs.
#pragma once

#include <cstdint>

#include "engine/kernels/dropout.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/tile/tile.h"

namespace attn {

// Outputs that a call does not want are passed over. T is float or double.
// Rows beyond the length get 0 (-infinity in masked_logits and lse). Jobs own
// disjoint rows, so that writers of different blocks may run at once;
// thread-compatible.
template <typename T>
class BlockWriter {
 public:
  BlockWriter(const KernelCall& call, const RowBlock& block)
      : call_(call), block_(block) {}

  // Tiles of the block's valid rows, of which the part within the call's window
  // is written. Keys outside of the tile get 0 (-infinity in masked_logits).
  void Logits(const Tile<T>& tile) const;
  void MaskedLogits(const Tile<T>& tile) const;
  void Weights(const Tile<T>& tile) const;
  void Contribution(const Tile<T>& tile) const;
  void GradientWeight(const Tile<T>& tile) const;

  // The valid rows of the output, [valid_rows, v_dim]; counts what is infinite
  // or NaN once rounded to the output's type. Uses `rows` as scratch.
  void Output(T* rows) const;

  // The keep mask of all rows and keys, those beyond the lengths too: what
  // `dropout` makes of their indices.
  void DropoutKeep(const CallView& view, const Dropout& dropout) const;

  // The block's row statistics, of which lse and lse_with_sink are outputs of
  // their own.
  RowStatistics* statistics() const;
  void Lse() const;

 private:
  void Scores(const MutableTensorView& tensor, const Tile<T>& tile,
              T fill) const;

  const KernelCall& call_;
  const RowBlock& block_;
};

}  // namespace attn
