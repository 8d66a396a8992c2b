// The stages of one problem, made from the tables of the four stage rooms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/biases/bias.h"
#include "engine/core/problem.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/scores/score.h"

namespace attn {

// Checks every stage member by its table. The error names the field as the
// request spells it, e.g. "spec.biases[0].dense.tensor.input".
absl::Status ValidateStages(const Problem& problem);

// The stages in words and in order, e.g.
// "dot * 0.125 -> + alibi -> causal(bottom_right) -> softmax".
std::string DescribeStages(const Problem& problem);

// The multiplier of <q, k>.
double EffectiveScale(const Problem& problem);

// Immutable. Thread-safe.
class Pipeline {
 public:
  // For a problem that passed ValidateStages().
  explicit Pipeline(const Problem& problem);

  const Score& score() const { return *score_; }
  const Normalizer& normalizer() const { return *normalizer_; }

  // Keys that some row of `rows` may attend, lengths included: the
  // intersection of the masks' hulls.
  KeyRange VisibleKeys(const CallView& call, const TileBounds& rows) const;

  // Softcap, biases, masks, lengths and temperature on a tile of scaled
  // scores, in that order.
  void Finish(const CallView& call, const Tile<float>& tile) const;
  void Finish(const CallView& call, const Tile<double>& tile) const;

 private:
  template <typename T>
  void FinishTile(const CallView& call, const Tile<T>& tile) const;

  std::unique_ptr<Score> score_;
  double softcap_ = 0;  // 0: off
  std::vector<std::unique_ptr<Bias>> biases_;
  std::vector<std::unique_ptr<Mask>> masks_;
  std::vector<double> temperatures_;
  std::unique_ptr<Normalizer> normalizer_;
};

}  // namespace attn
