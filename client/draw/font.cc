#include "client/draw/font.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kDefaultFont[] =
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
constexpr char kDefaultPackage[] = "fonts-dejavu-core";
// FreeType counts in 64ths of a pixel.
constexpr double kPerPixel = 64;
// Shapes as they were drawn, so that text is as wide as it is measured.
constexpr FT_Int32 kLoadFlags = FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP;
// Of DejaVu Sans, and near that of most: 0.73 em. Half of it is the middle.
constexpr double kCapHeight = 0.73;
// Above and below that middle, in em; holds accents and descenders.
constexpr double kHalfLine = 0.80;

absl::Status Unusable(const std::string& path, int error) {
  const std::string hint =
      path == kDefaultFont
          ? absl::StrCat("; install the package ", kDefaultPackage,
                         " or name another font with --font FILE")
          : "; name a TrueType or OpenType file";
  if (error == FT_Err_Cannot_Open_Resource) {
    return absl::NotFoundError(
        absl::StrCat(path, ": this font cannot be read", hint));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": this is no font that FreeType reads", hint));
}

// Where it does not fit it is cut.
void AddShape(const FT_Bitmap& shape, int x, int y, InkBitmap& to) {
  for (int row = 0; row < static_cast<int>(shape.rows); ++row) {
    if (y + row < 0 || y + row >= to.height) continue;
    const uint8_t* from = shape.buffer + std::ptrdiff_t{row} * shape.pitch;
    for (int column = 0; column < static_cast<int>(shape.width); ++column) {
      if (x + column < 0 || x + column >= to.width) continue;
      uint8_t& ink = to.At(x + column, y + row);
      ink = std::max(ink, from[column]);
    }
  }
}

}  // namespace

struct Font::Face {
  Face() = default;
  ~Face() {
    if (face != nullptr) FT_Done_Face(face);
    if (library != nullptr) FT_Done_FreeType(library);
  }
  Face(const Face&) = delete;
  Face& operator=(const Face&) = delete;

  // Calls visit(glyph slot) for each character with its outline loaded.
  template <typename Visit>
  void ForEach(absl::string_view text, int size, Visit visit) const {
    FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(size));
    for (const char32_t c : CodePoints(text)) {
      const FT_UInt glyph = FT_Get_Char_Index(face, c);
      if (FT_Load_Glyph(face, glyph, kLoadFlags) == 0) visit(face->glyph);
    }
  }

  FT_Library library = nullptr;
  FT_Face face = nullptr;
};

Font::Font(std::unique_ptr<Face> face) : face_(std::move(face)) {}
Font::~Font() = default;
Font::Font(Font&&) noexcept = default;
Font& Font::operator=(Font&&) noexcept = default;

absl::StatusOr<Font> Font::Load(const std::string& path) {
  const std::string file = path.empty() ? kDefaultFont : path;
  auto face = std::make_unique<Face>();
  int error = FT_Init_FreeType(&face->library);
  if (error != 0) return absl::InternalError("FreeType does not start");
  error = FT_New_Face(face->library, file.c_str(), 0, &face->face);
  if (error == 0 && FT_IS_SCALABLE(face->face) == 0) {
    error = FT_Err_Unknown_File_Format;
  }
  if (error != 0) return Unusable(file, error);
  return Font(std::move(face));
}

double Font::Width(absl::string_view text, int size) const {
  double width = 0;
  face_->ForEach(text, size, [&](FT_GlyphSlot glyph) {
    width += static_cast<double>(glyph->linearHoriAdvance) / 65536;
  });
  return width;
}

InkBitmap Font::Render(absl::string_view text, int size) const {
  InkBitmap bitmap;
  bitmap.width = static_cast<int>(std::ceil(Width(text, size))) + 2;
  const int middle = static_cast<int>(std::ceil(kHalfLine * size));
  bitmap.height = 2 * middle;
  bitmap.ink.resize(static_cast<size_t>(bitmap.width) *
                    static_cast<size_t>(bitmap.height));
  const double baseline = middle + kCapHeight * size / 2;
  double pen = 0;
  face_->ForEach(text, size, [&](FT_GlyphSlot glyph) {
    if (glyph->format != FT_GLYPH_FORMAT_OUTLINE) return;
    // The fractions of the pen go into the shape, the rest into the place.
    const double left = std::floor(pen);
    FT_Outline_Translate(&glyph->outline,
                         static_cast<FT_Pos>((pen - left) * kPerPixel), 0);
    pen += static_cast<double>(glyph->linearHoriAdvance) / 65536;
    if (FT_Render_Glyph(glyph, FT_RENDER_MODE_NORMAL) != 0) return;
    AddShape(glyph->bitmap, static_cast<int>(left) + glyph->bitmap_left,
             static_cast<int>(std::lround(baseline)) - glyph->bitmap_top,
             bitmap);
  });
  return bitmap;
}

bool Font::Lacks(absl::string_view text) const {
  for (const char32_t c : CodePoints(text)) {
    if (FT_Get_Char_Index(face_->face, c) == 0) return true;
  }
  return false;
}

}  // namespace attn
