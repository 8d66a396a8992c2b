// What each head of the story model does, in a few words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// By what was measured on held-out text: see model/heads.json.
struct StoryHeadNote {
  // "induction", "previous token", "rest position", "piece", "broad" or
  // "mixed": the first of these that holds.
  std::string kind;
  // The measurement that says so, as a sentence without a full stop.
  std::string summary;
};

// [layers][heads]. INVALID_ARGUMENT names what is wrong, as when a head of that
// shape is missing or comes twice.
absl::StatusOr<std::vector<std::vector<StoryHeadNote>>> ParseStoryHeadNotes(
    absl::string_view json_text, int64_t layers, int64_t heads);

}  // namespace attn
