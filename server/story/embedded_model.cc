#include "server/story/embedded_model.h"

#include <cstddef>
#include <cstdint>

// The assembler copies the file, which costs the compiler nothing. The size
// stands beside it, as two symbols of C++ must not be subtracted.
#define ATTN_EMBED(symbol, file)                  \
  asm(".pushsection .rodata\n"                    \
      ".balign 64\n"                              \
      ".global " #symbol                          \
      "\n"                                        \
      ".hidden " #symbol "\n" #symbol             \
      ":\n"                                       \
      "771: .incbin \"" ATTN_STORY_MODEL_DIR file \
      "\"\n"                                      \
      "772: .balign 8\n"                          \
      ".global " #symbol                          \
      "Size\n"                                    \
      ".hidden " #symbol "Size\n" #symbol         \
      "Size: .quad 772b - 771b\n"                 \
      ".popsection\n")

ATTN_EMBED(kAttnStoryWeights, "/tiny.bin");
ATTN_EMBED(kAttnStoryTokenizer, "/tok512.bin");
ATTN_EMBED(kAttnStoryHeads, "/heads.json");

extern "C" {
extern const char kAttnStoryWeights[];
extern const uint64_t kAttnStoryWeightsSize;
extern const char kAttnStoryTokenizer[];
extern const uint64_t kAttnStoryTokenizerSize;
extern const char kAttnStoryHeads[];
extern const uint64_t kAttnStoryHeadsSize;
}

namespace attn {

absl::string_view StoryWeightsFile() {
  return {kAttnStoryWeights, static_cast<size_t>(kAttnStoryWeightsSize)};
}

absl::string_view StoryTokenizerFile() {
  return {kAttnStoryTokenizer, static_cast<size_t>(kAttnStoryTokenizerSize)};
}

absl::string_view StoryHeadsFile() {
  return {kAttnStoryHeads, static_cast<size_t>(kAttnStoryHeadsSize)};
}

}  // namespace attn
