// The stages of one problem, made from the tables of the stage rooms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/biases/bias.h"
#include "engine/core/problem.h"
#include "engine/kernels/dropout.h"
#include "engine/kernels/stage_records.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/programs/program.h"
#include "engine/scores/score.h"
#include "engine/sparsifiers/sparsifier.h"
#include "engine/transforms/transform.h"

namespace attn {

// Checks every stage member by its table. The error names the field as the
// request spells it, e.g. "spec.biases[0].dense.tensor.input".
absl::Status ValidateStages(const Problem& problem);

// The stages in words and in order, e.g.
// "dot * 0.125 -> + alibi -> causal(bottom_right) -> softmax".
std::string DescribeStages(const Problem& problem);

// The multiplier of the score, but for a learned scale's factor.
double EffectiveScale(const Problem& problem);

// Immutable. Thread-safe.
class Pipeline {
 public:
  // For a problem that passed ValidateStages().
  explicit Pipeline(const Problem& problem);

  const Score& score() const { return *score_; }
  const Normalizer& normalizer() const { return *normalizer_; }

  // Whether rows of a side change before they are compared, and the width they
  // then have.
  bool prepares(Side side) const;
  int64_t prepared_width() const { return score_->prepared_width(); }
  // Transforms `rows` in place and prepares them for the score. The result is
  // `rows` or `prepared` [span.count, prepared_width()].
  template <typename T>
  T* Prepare(const CallView& call, Side side, const RowSpan& span, T* rows,
             T* prepared) const;

  // Keys that some row of `rows` may attend, lengths included: the
  // intersection of the masks' hulls.
  KeyRange VisibleKeys(const CallView& call, const TileBounds& rows) const;

  // Softcap, biases, score program, masks, lengths, temperature and sparsifiers
  // on a tile of scaled scores, in that order. With sparsifiers the tile holds
  // every visible key of its rows, and `scratch` has room for a row of it.
  void Finish(const CallView& call, const Tile<float>& tile,
              float* scratch) const;
  void Finish(const CallView& call, const Tile<double>& tile,
              double* scratch) const;
  // Asks the memory for what Finish() will read for a tile of these bounds.
  void Prefetch(const CallView& call, const TileBounds& bounds) const {
    for (const auto& bias : biases_) bias->Prefetch(call, bounds);
  }
  bool has_sparsifiers() const { return !sparsifiers_.empty(); }
  bool has_masks() const { return !masks_.empty(); }
  // Whether Finish() does anything to the scores of keys that VisibleKeys()
  // gives.
  bool finishes() const;

  // The weight program on normalised weights; where `logits`, what they were
  // made from, is -infinity, the weight stays. `logits` is read only if there
  // is a program.
  void FinishWeights(const CallView& call, const Tile<float>& weights,
                     const Tile<float>& logits) const;
  void FinishWeights(const CallView& call, const Tile<double>& weights,
                     const Tile<double>& logits) const;
  // Null: none.
  const Program* score_program() const { return score_program_.get(); }
  const Program* weight_program() const { return weight_program_.get(); }

  // 0: there is none.
  double softcap() const { return softcap_; }
  // 1 if there is none.
  double TemperatureOf(int64_t head) const;

  // The way back, in double (pipeline_backward.cc). First the same steps, with
  // what they take kept.
  int64_t kept_stages(Side side) const;
  // From the rows in the first plane of record.kept to what is compared: the
  // last plane or record.prepared.
  const double* PrepareAndKeep(const CallView& call, Side side,
                               const RowsRecord& record) const;
  // From record.scores to the others; `scratch` as in Finish().
  void FinishAndKeep(const CallView& call, const TileRecord& record,
                     RowStatistics* statistics, double* scratch) const;
  // Turns the gradient of record.mixed, in place, into that of record.scores,
  // 0 where a key is excluded. `lse_gradient`, by row, may be null. Adds the
  // parameters' gradients to `sink` and those of numbers to `stages`.
  void FinishBackward(const CallView& call, const TileRecord& record,
                      const TileGradient& gradient, const GradientSink& sink,
                      StageGradients* stages) const;
  // The biases' part of that alone, given the gradient of the biased logits.
  void BiasesBackward(const CallView& call, const Tile<double>& gradient,
                      const GradientSink& sink) const;
  // From the gradient of the rows that were compared (which is changed) to that
  // of the rows at the start, in `gradient` [span.count, d].
  void PrepareBackward(const CallView& call, Side side,
                       const RowsRecord& record, const RowsGradient& gradient,
                       const GradientSink& sink) const;

  // For the weights once they have been written out.
  const Dropout& dropout() const { return dropout_; }
  // For the output.
  const HeadGate& head_gate() const { return head_gate_; }

 private:
  template <typename T>
  void FinishTile(const CallView& call, const Tile<T>& tile, T* scratch) const;
  // The stages before the score program, and those after it.
  template <typename T>
  void CapAndBias(const CallView& call, const Tile<T>& tile) const;
  template <typename T>
  void MaskAndSparsify(const CallView& call, const Tile<T>& tile,
                       T* scratch) const;
  void CoolBackward(const TileRecord& record, const Tile<double>& gradient,
                    StageGradients* stages) const;
  void CapBackward(const TileRecord& record, const Tile<double>& gradient,
                   StageGradients* stages) const;
  // Divides by the temperature.
  template <typename T>
  void Cool(const Tile<T>& tile) const;

  std::vector<std::unique_ptr<Transform>> transforms_;
  std::unique_ptr<Score> score_;
  double softcap_ = 0;  // 0: off
  std::vector<std::unique_ptr<Bias>> biases_;
  std::unique_ptr<const Program> score_program_;
  std::vector<std::unique_ptr<Mask>> masks_;
  std::vector<double> temperatures_;
  std::vector<std::unique_ptr<Sparsifier>> sparsifiers_;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<const Program> weight_program_;
  Dropout dropout_;
  HeadGate head_gate_;
};

}  // namespace attn
