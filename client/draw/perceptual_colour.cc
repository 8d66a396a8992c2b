#include "client/draw/perceptual_colour.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attn {
namespace {

// IEC 61966-2-1.
double ToLinear(uint8_t channel) {
  const double x = static_cast<double>(channel) / 255;
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

uint8_t FromLinear(double linear) {
  const double x = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(encoded * 255));
}

double Cube(double x) { return x * x * x; }

}  // namespace

OkLab FromLightnessChromaHue(double lightness, double chroma, double hue) {
  const double angle = hue * std::numbers::pi / 180;
  return {lightness, chroma * std::cos(angle), chroma * std::sin(angle)};
}

// The matrices of both directions are Ottosson's, of 2021-01-25.
Rgb ToRgb(const OkLab& c) {
  const double l = Cube(c.lightness + 0.3963377774 * c.a + 0.2158037573 * c.b);
  const double m = Cube(c.lightness - 0.1055613458 * c.a - 0.0638541728 * c.b);
  const double s = Cube(c.lightness - 0.0894841775 * c.a - 1.2914855480 * c.b);
  return {FromLinear(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          FromLinear(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          FromLinear(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

OkLab ToOkLab(Rgb colour) {
  const double r = ToLinear(colour.red);
  const double g = ToLinear(colour.green);
  const double b = ToLinear(colour.blue);
  const double l =
      std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m =
      std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s =
      std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

double ColourDistance(const OkLab& x, const OkLab& y) {
  return std::hypot(x.lightness - y.lightness, x.a - y.a, x.b - y.b);
}

}  // namespace attn
