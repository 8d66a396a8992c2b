#include "client/draw/colour_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace attn {
namespace {

constexpr double kLast = 255;

// Colours on the straight lines of Oklab between anchors.
class AnchorPath {
 public:
  explicit AnchorPath(std::vector<OkLab> anchors)
      : anchors_(std::move(anchors)) {
    for (size_t i = 1; i < anchors_.size(); ++i) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) +
                      ColourDistance(anchors_[i - 1], anchors_[i]));
    }
  }

  // By the way along the lines: equal steps look equally far.
  Rgb AtShare(double share) const {
    const double way = share * ends_.back();
    size_t line = 0;
    while (line + 1 < ends_.size() && way > ends_[line]) ++line;
    const double begin = line == 0 ? 0 : ends_[line - 1];
    return On(line, (way - begin) / (ends_[line] - begin));
  }

  // By the number of the anchor, whatever the lengths of the lines.
  Rgb AtAnchor(double number) const {
    const auto line =
        std::min(static_cast<size_t>(number), anchors_.size() - 2);
    return On(line, number - static_cast<double>(line));
  }

 private:
  Rgb On(size_t line, double share) const {
    const OkLab& from = anchors_[line];
    const OkLab& to = anchors_[line + 1];
    return ToRgb({std::lerp(from.lightness, to.lightness, share),
                  std::lerp(from.a, to.a, share),
                  std::lerp(from.b, to.b, share)});
  }

  std::vector<OkLab> anchors_;
  // Where each line ends on the way.
  std::vector<double> ends_;
};

std::array<Rgb, 256> SequentialColours() {
  const AnchorPath path({FromLightnessChromaHue(0.285, 0.137, 318),
                         FromLightnessChromaHue(0.429, 0.106, 274),
                         FromLightnessChromaHue(0.559, 0.085, 208),
                         FromLightnessChromaHue(0.694, 0.145, 158),
                         FromLightnessChromaHue(0.842, 0.194, 123),
                         FromLightnessChromaHue(0.918, 0.186, 102)});
  std::array<Rgb, 256> colours;
  for (size_t i = 0; i < colours.size(); ++i) {
    colours[i] = path.AtShare(static_cast<double>(i) / kLast);
  }
  return colours;
}

std::array<Rgb, 256> DivergingColours() {
  // Lightness falls by the same steps on both sides of the middle.
  const AnchorPath path({FromLightnessChromaHue(0.45, 0.145, 258),
                         FromLightnessChromaHue(0.71, 0.115, 250),
                         FromLightnessChromaHue(0.97, 0, 0),
                         FromLightnessChromaHue(0.71, 0.135, 62),
                         FromLightnessChromaHue(0.45, 0.110, 52)});
  std::array<Rgb, 256> colours;
  for (size_t i = 0; i < colours.size(); ++i) {
    colours[i] = path.AtAnchor(4 * static_cast<double>(i) / kLast);
  }
  return colours;
}

}  // namespace

const ColourMap& ColourMap::Sequential() {
  static const ColourMap kMap(SequentialColours());
  return kMap;
}

const ColourMap& ColourMap::Diverging() {
  static const ColourMap kMap(DivergingColours());
  return kMap;
}

Rgb ColourMap::At(double position) const {
  const double index = std::clamp(position, 0.0, 1.0) * kLast;
  return colours_[static_cast<size_t>(std::lround(index))];
}

}  // namespace attn
