#include "client/draw/png_canvas.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/draw/colour_map.h"
#include "client/draw/hatch.h"
#include "client/draw/png_writer.h"

namespace attn {
namespace {

constexpr int kBandRows = 64;
constexpr size_t kChannels = 3;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A quarter turn to the left: what is read upward.
InkBitmap Turned(const InkBitmap& from) {
  InkBitmap to;
  to.width = from.height;
  to.height = from.width;
  to.ink.resize(from.ink.size());
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      to.At(x, y) = from.At(from.width - 1 - y, x);
    }
  }
  return to;
}

// How far before the point the text begins, of its whole length.
int Before(TextAlign align, int length) {
  if (align == TextAlign::kStart) return 0;
  return align == TextAlign::kMiddle ? length / 2 : length;
}

uint8_t Mixed(uint8_t under, uint8_t over, uint8_t ink) {
  return static_cast<uint8_t>((under * (255 - ink) + over * ink + 127) / 255);
}

}  // namespace

// Rows [y, y + rows) of the image.
class PngCanvas::Band {
 public:
  Band(int y, int rows, int width)
      : y_(y),
        rows_(rows),
        width_(width),
        pixels_(
            static_cast<size_t>(rows) * static_cast<size_t>(width) * kChannels,
            255) {}

  absl::Span<const uint8_t> row(int row) const {
    const size_t bytes = static_cast<size_t>(width_) * kChannels;
    return {pixels_.data() + static_cast<size_t>(row) * bytes, bytes};
  }

  void operator()(const FillCommand& fill) {
    ForEachPixel(fill.box, [&](int x, int y, uint8_t* to) {
      const Rgb* colour = std::get_if<Rgb>(&fill.paint);
      Set(colour != nullptr ? *colour : HatchColourAt(x, y), to);
    });
  }

  void operator()(const CellsCommand& command) {
    const CellImage& cells = command.cells;
    const PixelBox& box = command.box;
    ForEachPixel(box, [&](int x, int y, uint8_t* to) {
      const auto column = int64_t{x - box.x} * cells.columns / box.width;
      const auto row = int64_t{y - box.y} * cells.rows / box.height;
      const uint8_t* from =
          cells.rgba.data() +
          static_cast<size_t>(row * cells.columns + column) * 4;
      if (from[3] != 0) Set({from[0], from[1], from[2]}, to);
    });
  }

  void operator()(const InkCommand& command) {
    const PixelBox& box = command.box;
    ForEachPixel(box, [&](int x, int y, uint8_t* to) {
      const uint8_t ink =
          command.bitmap
              .ink[static_cast<size_t>((y - box.y) * box.width + x - box.x)];
      to[0] = Mixed(to[0], command.colour.red, ink);
      to[1] = Mixed(to[1], command.colour.green, ink);
      to[2] = Mixed(to[2], command.colour.blue, ink);
    });
  }

 private:
  static void Set(Rgb colour, uint8_t* to) {
    to[0] = colour.red;
    to[1] = colour.green;
    to[2] = colour.blue;
  }

  // Of the box, those within the band.
  template <typename Visit>
  void ForEachPixel(const PixelBox& box, Visit visit) {
    const int top = std::max(box.y, y_);
    const int bottom = std::min(box.bottom(), y_ + rows_);
    const int left = std::max(box.x, 0);
    const int right = std::min(box.right(), width_);
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        visit(x, y,
              pixels_.data() +
                  (static_cast<size_t>(y - y_) * static_cast<size_t>(width_) +
                   static_cast<size_t>(x)) *
                      kChannels);
      }
    }
  }

  int y_;
  int rows_;
  int width_;
  std::vector<uint8_t> pixels_;
};

PngCanvas::PngCanvas(int width, int height, const Font& font)
    : width_(width), height_(height), font_(font) {}

void PngCanvas::Fill(const PixelBox& box, const Paint& paint,
                     const std::string& /*hover*/) {
  commands_.emplace_back(FillCommand{box, paint});
}

void PngCanvas::Cells(const PixelBox& box, CellImage cells) {
  commands_.emplace_back(CellsCommand{box, std::move(cells)});
}

void PngCanvas::Text(const FigureText& text) {
  InkBitmap bitmap = font_.Render(text.text, text.size);
  // Rendered text has a margin beside its measured width.
  const int length =
      static_cast<int>(std::lround(font_.Width(text.text, text.size)));
  const int before = Before(text.align, length);
  PixelBox box{text.x - before, text.y - bitmap.height / 2, bitmap.width,
               bitmap.height};
  if (text.upward) {
    bitmap = Turned(bitmap);
    box = {text.x - bitmap.width / 2, text.y + before - bitmap.height,
           bitmap.width, bitmap.height};
  }
  commands_.emplace_back(InkCommand{box, std::move(bitmap), text.colour});
}

absl::Status PngCanvas::Write(const std::string& path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  const auto failed = [&path](int error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::generic_category().message(error)));
  };
  if (file == nullptr) return failed(errno);
  int write_error = 0;
  PngWriter writer({.width = width_, .height = height_, .has_alpha = false},
                   [&](absl::Span<const uint8_t> bytes) {
                     if (std::fwrite(bytes.data(), 1, bytes.size(),
                                     file.get()) == bytes.size()) {
                       return true;
                     }
                     write_error = errno;
                     return false;
                   });
  absl::Status status = writer.Begin();
  for (int y = 0; status.ok() && y < height_; y += kBandRows) {
    const int rows = std::min(kBandRows, height_ - y);
    Band band(y, rows, width_);
    for (const Command& command : commands_) std::visit(band, command);
    for (int row = 0; status.ok() && row < rows; ++row) {
      status = writer.Row(band.row(row));
    }
  }
  if (status.ok()) status = writer.End();
  if (write_error != 0) return failed(write_error);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(path, ": ", status.message()));
  }
  if (std::fclose(file.release()) != 0) return failed(errno);
  return absl::OkStatus();
}

}  // namespace attn
