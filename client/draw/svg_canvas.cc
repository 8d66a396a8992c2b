#include "client/draw/svg_canvas.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/draw/colour_map.h"
#include "client/draw/hatch.h"
#include "client/draw/png_writer.h"

namespace attn {
namespace {

// Wide as DejaVu Sans, by which the figure is laid out, where it is missing.
constexpr char kFontFamilies[] = "'DejaVu Sans', Verdana, sans-serif";
// From the middle of the capitals down to the baseline, in em.
constexpr double kToBaseline = 0.36;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Hex(Rgb colour) {
  return absl::StrFormat("#%02x%02x%02x", colour.red, colour.green,
                         colour.blue);
}

std::string Place(const PixelBox& box) {
  return absl::StrFormat("x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", box.x,
                         box.y, box.width, box.height);
}

const char* Anchor(TextAlign align) {
  if (align == TextAlign::kStart) return "start";
  return align == TextAlign::kMiddle ? "middle" : "end";
}

// Bars at 45 degrees: the tile repeats the stripe kHatchPeriod pixels apart
// along x, as HatchColourAt() does.
std::string HatchPattern() {
  const int p = kHatchPeriod;
  return absl::StrFormat(
      "<pattern id=\"masked\" width=\"%d\" height=\"%d\" "
      "patternUnits=\"userSpaceOnUse\">"
      "<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>"
      "<path d=\"M-1,1 l2,-2 M0,%d l%d,-%d M%d,%d l2,-2\" stroke=\"%s\"/>"
      "</pattern>",
      p, p, p, p, Hex(kMaskedGround), p, p, p, p - 1, p + 1,
      Hex(kMaskedStripe));
}

absl::StatusOr<std::string> EncodePng(const CellImage& cells) {
  std::string bytes;
  PngWriter writer(
      {.width = cells.columns, .height = cells.rows, .has_alpha = true},
      [&bytes](absl::Span<const uint8_t> more) {
        bytes.append(more.begin(), more.end());
        return true;
      });
  absl::Status status = writer.Begin();
  const auto row_bytes = static_cast<size_t>(cells.columns) * 4;
  for (size_t row = 0; status.ok() && row < static_cast<size_t>(cells.rows);
       ++row) {
    status = writer.Row({cells.rgba.data() + row * row_bytes, row_bytes});
  }
  if (status.ok()) status = writer.End();
  if (!status.ok()) return status;
  return bytes;
}

}  // namespace

SvgCanvas::SvgCanvas(int width, int height) : width_(width), height_(height) {}

void SvgCanvas::Fill(const PixelBox& box, const Paint& paint,
                     const std::string& hover) {
  const Rgb* colour = std::get_if<Rgb>(&paint);
  absl::StrAppend(&body_, "<rect ", Place(box), " fill=\"",
                  colour != nullptr ? Hex(*colour) : "url(#masked)", "\"");
  if (hover.empty()) {
    absl::StrAppend(&body_, "/>\n");
  } else {
    absl::StrAppend(&body_, "><title>", Escaped(hover), "</title></rect>\n");
  }
}

void SvgCanvas::Cells(const PixelBox& box, CellImage cells) {
  const auto png = EncodePng(cells);
  if (!png.ok()) {
    status_ = png.status();
    return;
  }
  absl::StrAppend(&body_, "<image ", Place(box),
                  " preserveAspectRatio=\"none\" "
                  "style=\"image-rendering:pixelated\" "
                  "xlink:href=\"data:image/png;base64,",
                  absl::Base64Escape(*png), "\"/>\n");
}

void SvgCanvas::Text(const FigureText& text) {
  const double baseline = text.y + kToBaseline * text.size;
  absl::StrAppendFormat(&body_,
                        "<text x=\"%d\" y=\"%.1f\" font-size=\"%d\" "
                        "text-anchor=\"%s\" fill=\"%s\" "
                        // So that it does not hide what hovers below.
                        "pointer-events=\"none\"",
                        text.x, baseline, text.size, Anchor(text.align),
                        Hex(text.colour));
  if (text.upward) {
    absl::StrAppendFormat(&body_, " transform=\"rotate(-90 %d %d)\"", text.x,
                          text.y);
  }
  absl::StrAppend(&body_, ">", Escaped(text.text), "</text>\n");
}

std::string SvgCanvas::ToString() const {
  return absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "xmlns:xlink=\"http://www.w3.org/1999/xlink\" version=\"1.1\" width=\"",
      width_, "\" height=\"", height_, "\" viewBox=\"0 0 ", width_, " ",
      height_, "\" font-family=\"", kFontFamilies,
      "\" shape-rendering=\"crispEdges\" xml:space=\"preserve\">\n<defs>",
      HatchPattern(), "</defs>\n<rect width=\"", width_, "\" height=\"",
      height_, "\" fill=\"#ffffff\"/>\n", body_, "</svg>\n");
}

absl::Status SvgCanvas::Write(const std::string& path) {
  const auto failed = [&path](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  if (!status_.ok()) return failed(status_.message());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failed(std::generic_category().message(errno));
  const std::string text = ToString();
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (std::fclose(file) != 0 || !written) {
    return failed(std::generic_category().message(written ? errno : error));
  }
  return absl::OkStatus();
}

}  // namespace attn
