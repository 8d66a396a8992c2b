// Specs drawn at random, over every member of every stage.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/attention_spec.h"

namespace attn {

// Legal for the codec; the engine may refuse them. The same seed gives the same
// specs. Thread-compatible.
class RandomSpec {
 public:
  explicit RandomSpec(uint32_t seed) : random_(seed) {}

  AttentionSpec Draw();

  // One member of a stage, by its index in the std::variant.
  ScoreSpec Score(size_t index);
  BiasSpec Bias(size_t index);
  MaskSpec Mask(size_t index);
  NormalizerSpec Normalizer(size_t index);
  SparsifierSpec Sparsifier(size_t index);
  TransformSpec Transform(size_t index);
  LatentProjection Latent();

 private:
  // Below `bound`, from 0.
  int Below(int bound);
  bool Coin() { return Below(2) == 1; }
  double Number();
  int64_t Integer() { return Below(1 << 20) - (1 << 10); }
  uint32_t Ref() { return static_cast<uint32_t>(random_()); }
  std::optional<uint32_t> MaybeRef();
  std::optional<double> MaybeNumber();
  std::optional<int64_t> MaybeInteger();
  std::optional<LearnedScale> MaybeScale();
  std::vector<int64_t> Integers();
  // Any value of an enum whose values are 1 to `last`.
  template <typename Enum>
  Enum OneOf(Enum last) {
    return static_cast<Enum>(1 + Below(static_cast<int>(last)));
  }
  Alignment AnyAlignment() { return static_cast<Alignment>(Below(3)); }
  ProgramSpec Program();
  MaskSpec BlockMask(size_t index);
  NormalizerSpec Linear();
  TransformSpec Rotary();
  LinearLayer Layer();
  ProjectionSpec Projections();
  template <typename Variant>
  size_t AnyOf() {
    return static_cast<size_t>(
        Below(static_cast<int>(std::variant_size_v<Variant>)));
  }

  std::mt19937 random_;
};

}  // namespace attn
