// The views of an Inspect call: their memory and their tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/core/attention_args.h"
#include "engine/core/problem.h"
#include "proto/codec/inspect_codec.h"
#include "proto/codec/response_codec.h"
#include "server/rpc/score_tiles.h"

namespace attn {

// Tensors of a window of the scores: those that are shown and those that the
// others need. Move-only; thread-compatible.
class InspectedScores {
 public:
  // A resolved window of a call whose scores are F32 or F64. `compare_heads`:
  // weights are needed to compare the heads, if the window has more than one.
  struct Options {
    InspectViews shown;
    ScoreWindow window;
    std::optional<ScoreTiling> tiling;
    DType dtype = DType::kF32;
    bool compare_heads = false;
  };

  InspectedScores() = default;
  explicit InspectedScores(const Options& options);

  // Asks for the tensors.
  void Select(OutputSelection& selection) const;
  // Bytes of the tensors of the response, and of all.
  int64_t shown_bytes() const { return shown_bytes_; }
  int64_t booked_bytes() const { return booked_bytes_; }

  // Takes the memory. The views live as long as this; none if part_count() is
  // not 0.
  AttentionOutputs Allocate();
  // A large window whose tiles are shown is computed in parts, each pooled
  // before the next takes its memory: rows of a head, or as many heads, or
  // sequences, as fit. 0: it is not.
  int64_t part_count() const { return part_count_; }
  // Views for one part, of memory that all parts share.
  AttentionOutputs Part(int64_t part);
  // Once they are filled.
  void PoolPart(int64_t part);
  // Once they are filled: the window's weights if they are needed or shown.
  std::optional<TensorView> Weights() const;
  // What is shown, pooled if there is a tiling. Gives the memory away.
  std::vector<ResponseTensor> Take();

 private:
  struct Score {
    int field = 0;
    MutableTensorView AttentionOutputs::*view = nullptr;
    bool OutputSelection::*selected = nullptr;
    bool shown = false;
    AlignedBuffer data;
    // Of a window in parts, what is shown.
    AlignedBuffer pooled;
  };

  void DivideIntoParts();
  int64_t PartsAlong(int axis) const {
    return (shape_[axis] + part_shape_[axis] - 1) / part_shape_[axis];
  }
  // Of what is held and what is shown, once it is known.
  void CountBytes(bool pools);
  // The part's place in the call.
  ScoreWindow WindowOf(int64_t part) const;
  const Score* Find(int field) const;
  TensorView ViewOf(const Score& score) const;
  ResponseTensor Pool(const Score& score) const;

  Options options_;
  Shape shape_;
  int64_t part_count_ = 0;
  // The last part along an axis may have less.
  Shape part_shape_;
  std::vector<Score> scores_;
  int64_t shown_bytes_ = 0;
  int64_t booked_bytes_ = 0;
};

}  // namespace attn
