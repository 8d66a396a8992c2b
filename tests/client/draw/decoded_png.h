// PNG files as pixels again, by libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/draw/perceptual_colour.h"

namespace attn {

struct DecodedPng {
  // 0 x 0 for what is no PNG.
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgba;

  Rgb At(int x, int y) const;
  uint8_t AlphaAt(int x, int y) const;
};

DecodedPng DecodePng(const std::string& bytes);
DecodedPng DecodePngFile(const std::string& path);

}  // namespace attn
