#include "tests/client/draw/decoded_png.h"

#include <png.h>

#include <cstddef>
#include <fstream>
#include <iterator>

namespace attn {
namespace {

size_t PixelAt(const DecodedPng& image, int x, int y) {
  return (static_cast<size_t>(y) * static_cast<size_t>(image.width) +
          static_cast<size_t>(x)) *
         4;
}

}  // namespace

Rgb DecodedPng::At(int x, int y) const {
  const size_t at = PixelAt(*this, x, y);
  return {rgba[at], rgba[at + 1], rgba[at + 2]};
}

uint8_t DecodedPng::AlphaAt(int x, int y) const {
  return rgba[PixelAt(*this, x, y) + 3];
}

DecodedPng DecodePng(const std::string& bytes) {
  DecodedPng decoded;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) ==
      0) {
    return decoded;
  }
  image.format = PNG_FORMAT_RGBA;
  decoded.rgba.resize(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, decoded.rgba.data(), 0, nullptr) ==
      0) {
    return {};
  }
  decoded.width = static_cast<int>(image.width);
  decoded.height = static_cast<int>(image.height);
  return decoded;
}

DecodedPng DecodePngFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return DecodePng({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace attn
