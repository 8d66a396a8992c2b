// Colours of the screen, and the space in which equal distances look equal.
#pragma once

#include <cstdint>

namespace attn {

// sRGB, 8 bits a channel.
struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

// Oklab (Ottosson, "A perceptual color space for image processing", 2020):
// lightness 0 to 1, then green to red and blue to yellow.
struct OkLab {
  double lightness = 0;
  double a = 0;
  double b = 0;
};

// `hue` in degrees.
OkLab FromLightnessChromaHue(double lightness, double chroma, double hue);

// To the nearest that the screen has.
Rgb ToRgb(const OkLab& colour);
OkLab ToOkLab(Rgb colour);

// Euclidean; about 0.02 can just be told apart.
double ColourDistance(const OkLab& x, const OkLab& y);

}  // namespace attn
