// From numbers to colours, for readers of any colour vision.
#pragma once

#include <array>

#include "client/draw/perceptual_colour.h"

namespace attn {

// 256 colours, computed once. Thread-safe.
class ColourMap {
 public:
  // For what grows from one end, as weights: dark violet over teal to yellow.
  // Lightness rises all the way, in equal steps of Oklab, so that it reads in
  // grey and without red or green. The hues are those of viridis (Smith and van
  // der Walt, matplotlib 1.5, 2015).
  static const ColourMap& Sequential();
  // For what has a centre, as logits around 0: blue, near white, orange brown.
  // Both arms are equally light at equal distances (Moreland, "Diverging Color
  // Maps for Scientific Visualization", 2009); blue and orange are what readers
  // without red or green tell apart (as PuOr of Brewer's ColorBrewer, 2003).
  static const ColourMap& Diverging();

  // `position` 0 to 1, clamped; not NaN.
  Rgb At(double position) const;

 private:
  explicit ColourMap(const std::array<Rgb, 256>& colours) : colours_(colours) {}

  std::array<Rgb, 256> colours_;
};

// The two colours of the hatch over what is masked; no map has them.
inline constexpr Rgb kMaskedGround{210, 210, 210};
inline constexpr Rgb kMaskedStripe{155, 155, 155};
// What is not finite; darker than any colour of the maps.
inline constexpr Rgb kNotFiniteColour{0, 0, 0};

}  // namespace attn
