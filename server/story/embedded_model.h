// The files of model/, which the program carries inside itself.
#pragma once

#include "absl/strings/string_view.h"

namespace attn {

// They live as long as the program.
absl::string_view StoryWeightsFile();    // tiny.bin
absl::string_view StoryTokenizerFile();  // tok512.bin
absl::string_view StoryHeadsFile();      // heads.json

}  // namespace attn
