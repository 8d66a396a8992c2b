// What figures are drawn on.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "client/draw/perceptual_colour.h"

namespace attn {

// Pixels, from the upper left corner.
struct PixelBox {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  int right() const { return x + width; }
  int bottom() const { return y + height; }
  bool Overlaps(const PixelBox& other) const {
    return x < other.right() && other.x < right() && y < other.bottom() &&
           other.y < bottom();
  }
};

// Stripes for what is masked; they go on across neighbouring boxes.
struct HatchPaint {};
using Paint = std::variant<Rgb, HatchPaint>;

// Colours of cells, row by row, four bytes each; alpha is 0 or 255, and what is
// transparent shows what lies below.
struct CellImage {
  int columns = 0;
  int rows = 0;
  std::vector<uint8_t> rgba;
};

enum class TextAlign { kStart, kMiddle, kEnd };

// One line of clean text. `x`, `y`: the point that its start, middle or end
// has, half way between baseline and cap height.
struct FigureText {
  std::string text;
  int x = 0;
  int y = 0;
  int size = 0;
  TextAlign align = TextAlign::kStart;
  // Read from below to above.
  bool upward = false;
  Rgb colour{};
};

// Things drawn later lie above. A canvas has a white ground. Thread-compatible.
class Canvas {
 public:
  virtual ~Canvas() = default;

  // `hover`: clean text that is shown while the pointer is there, where the
  // format can.
  virtual void Fill(const PixelBox& box, const Paint& paint,
                    const std::string& hover) = 0;
  void Fill(const PixelBox& box, const Paint& paint) { Fill(box, paint, ""); }
  // Stretches the cells over the box, each with hard edges.
  virtual void Cells(const PixelBox& box, CellImage cells) = 0;
  virtual void Text(const FigureText& text) = 0;

  // Whether Fill()'s `hover` is of use.
  virtual bool has_hover() const = 0;
  // Writes the file. Errors begin with the path.
  virtual absl::Status Write(const std::string& path) = 0;
};

}  // namespace attn
