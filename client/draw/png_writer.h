// PNG files row by row, by libpng.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace attn {

// The bytes that a PngWriter makes; false: they could not be taken.
using ByteSink = std::function<bool(absl::Span<const uint8_t> bytes)>;

// One image of 8 bits a channel. Holds a row or two, never the image. Begin(),
// Row() for each row from above, End(); after an error no more.
// Thread-compatible.
class PngWriter {
 public:
  struct Format {
    int width = 0;
    int height = 0;
    // Four bytes a pixel instead of three.
    bool has_alpha = false;
  };

  PngWriter(const Format& format, ByteSink sink);
  ~PngWriter();
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  // DATA_LOSS if the sink fails, else INTERNAL with libpng's words.
  absl::Status Begin();
  // `pixels`: width * 3 or 4 bytes.
  absl::Status Row(absl::Span<const uint8_t> pixels);
  absl::Status End();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attn
