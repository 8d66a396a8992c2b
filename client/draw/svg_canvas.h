// A canvas that becomes a .svg file.
#pragma once

#include <string>

#include "client/draw/canvas.h"

namespace attn {

// SVG 1.1 that needs no other file: text stays text, cells are boxes or one
// embedded image. Thread-compatible.
class SvgCanvas : public Canvas {
 public:
  SvgCanvas(int width, int height);

  using Canvas::Fill;
  void Fill(const PixelBox& box, const Paint& paint,
            const std::string& hover) override;
  void Cells(const PixelBox& box, CellImage cells) override;
  void Text(const FigureText& text) override;

  bool has_hover() const override { return true; }
  absl::Status Write(const std::string& path) override;

  // The document.
  std::string ToString() const;

 private:
  int width_;
  int height_;
  std::string body_;
  // Of an image that could not be encoded.
  absl::Status status_;
};

}  // namespace attn
