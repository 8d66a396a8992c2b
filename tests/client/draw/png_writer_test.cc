#include "client/draw/png_writer.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/draw/decoded_png.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

TEST(PngWriterTest, WhatIsWrittenIsRead) {
  for (const bool has_alpha : {false, true}) {
    std::string bytes;
    PngWriter writer({.width = 3, .height = 2, .has_alpha = has_alpha},
                     [&bytes](absl::Span<const uint8_t> more) {
                       bytes.append(more.begin(), more.end());
                       return true;
                     });
    ASSERT_TRUE(writer.Begin().ok());
    for (uint8_t row = 0; row < 2; ++row) {
      std::vector<uint8_t> pixels;
      for (uint8_t column = 0; column < 3; ++column) {
        pixels.insert(pixels.end(), {row, column, 200});
        if (has_alpha) pixels.push_back(column == 0 ? 0 : 255);
      }
      ASSERT_TRUE(writer.Row(pixels).ok());
    }
    ASSERT_TRUE(writer.End().ok());
    const DecodedPng image = DecodePng(bytes);
    ASSERT_EQ(image.width, 3);
    ASSERT_EQ(image.height, 2);
    EXPECT_EQ(image.At(2, 1), (Rgb{1, 2, 200}));
    EXPECT_EQ(image.AlphaAt(0, 0), has_alpha ? 0 : 255);
  }
}

TEST(PngWriterTest, AFullDiskIsAnError) {
  PngWriter writer({.width = 1, .height = 1, .has_alpha = false},
                   [](absl::Span<const uint8_t>) { return false; });
  EXPECT_EQ(writer.Begin().code(), absl::StatusCode::kDataLoss);
}

TEST(PngWriterTest, LibpngsComplaintsAreErrors) {
  PngWriter none({.width = 0, .height = 1, .has_alpha = false},
                 [](absl::Span<const uint8_t>) { return true; });
  EXPECT_THAT(none.Begin().ToString(), HasSubstr("libpng: "));
  PngWriter early({.width = 1, .height = 2, .has_alpha = false},
                  [](absl::Span<const uint8_t>) { return true; });
  ASSERT_TRUE(early.Begin().ok());
  EXPECT_FALSE(early.End().ok());
}

}  // namespace
}  // namespace attn
