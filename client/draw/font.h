// Letters as pixels, by FreeType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/draw/label_text.h"

namespace attn {

// How much ink each pixel has, 0 to 255, row by row.
struct InkBitmap {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> ink;

  uint8_t& At(int x, int y) { return ink[Index(x, y)]; }
  uint8_t At(int x, int y) const { return ink[Index(x, y)]; }

 private:
  size_t Index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width) +
           static_cast<size_t>(x);
  }
};

// A font file. Move-only; thread-compatible.
class Font : public TextRuler {
 public:
  // `path` empty: DejaVu Sans. NOT_FOUND or INVALID_ARGUMENT says which file,
  // and for DejaVu Sans which package has it.
  static absl::StatusOr<Font> Load(const std::string& path);

  ~Font() override;
  Font(Font&&) noexcept;
  Font& operator=(Font&&) noexcept;

  double Width(absl::string_view text, int size) const override;
  // One line of clean text; `size` is that of the em square in pixels. Its rows
  // are centred on the middle between baseline and cap height.
  InkBitmap Render(absl::string_view text, int size) const;
  // Whether a character of the text is drawn as a box, for want of its shape.
  bool Lacks(absl::string_view text) const;

 private:
  struct Face;
  explicit Font(std::unique_ptr<Face> face);

  std::unique_ptr<Face> face_;
};

}  // namespace attn
