// The pattern over what is masked.
#pragma once

#include "client/draw/colour_map.h"

namespace attn {

// Stripes from lower left to upper right, so many pixels apart and so wide.
inline constexpr int kHatchPeriod = 7;
inline constexpr int kHatchStripe = 1;

// The colour of one pixel of the image; one pattern for all of it, so that
// small cells make whole stripes together.
inline Rgb HatchColourAt(int x, int y) {
  return (x + y) % kHatchPeriod < kHatchStripe ? kMaskedStripe : kMaskedGround;
}

}  // namespace attn
