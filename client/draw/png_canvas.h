// A canvas that becomes a .png file.
#pragma once

#include <variant>
#include <vector>

#include "client/draw/canvas.h"
#include "client/draw/font.h"

namespace attn {

// Keeps what is drawn, and makes pixels of it a band of rows at a time, so that
// a large image takes no more memory than its cells. Thread-compatible.
class PngCanvas : public Canvas {
 public:
  // `font` outlives the canvas.
  PngCanvas(int width, int height, const Font& font);

  using Canvas::Fill;
  void Fill(const PixelBox& box, const Paint& paint,
            const std::string& hover) override;
  void Cells(const PixelBox& box, CellImage cells) override;
  void Text(const FigureText& text) override;

  bool has_hover() const override { return false; }
  // DATA_LOSS for a full disk, INVALID_ARGUMENT for a path that cannot be
  // written.
  absl::Status Write(const std::string& path) override;

 private:
  struct FillCommand {
    PixelBox box;
    Paint paint;
  };
  struct CellsCommand {
    PixelBox box;
    CellImage cells;
  };
  struct InkCommand {
    PixelBox box;
    InkBitmap bitmap;
    Rgb colour;
  };
  using Command = std::variant<FillCommand, CellsCommand, InkCommand>;
  class Band;

  int width_;
  int height_;
  const Font& font_;
  std::vector<Command> commands_;
};

}  // namespace attn
