// The story model's tokenizer: byte pairs, merged by score.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attn {

// Ids: 0 unknown, 1 begin of text, 2 end of text, 3 to 258 the bytes 0 to 255,
// then pieces of text. Every text can be encoded, and decoding gives it back
// byte for byte, as what has no piece is spelt in bytes. Immutable;
// thread-safe.
class StoryTokenizer {
 public:
  static constexpr int32_t kBeginOfText = 1;

  // INVALID_ARGUMENT names what is wrong in a file of model/README.md's layout.
  static absl::StatusOr<StoryTokenizer> Parse(absl::string_view bytes);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

  // Begin of text, then the text with one space before it. INVALID_ARGUMENT
  // names "text" if that is more than `longest` tokens; what it takes is
  // bounded by `longest`, not by the text.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              int64_t longest) const;

  // Joins the pieces and drops the space behind begin of text. INVALID_ARGUMENT
  // names an id that there is not. What was cut inside of a character is not
  // valid UTF-8.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const;

  // A token for the eye, always valid UTF-8: a byte that is no visible ASCII
  // character is "<0xC3>", begin of text "<s>". INVALID_ARGUMENT as for Decode.
  absl::StatusOr<std::string> Display(int32_t id) const;

 private:
  StoryTokenizer() = default;

  absl::Status Add(absl::string_view piece, float score);
  void FindMerges();
  std::vector<int32_t> Spell(absl::string_view text) const;
  void Merge(std::vector<int32_t>& ids) const;
  absl::Status CheckId(int32_t id, absl::string_view field) const;
  // The bytes that an id stands for; none for 0 to 2.
  std::string BytesOf(int32_t id) const;

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  size_t longest_piece_ = 0;
  // Of pieces of text only.
  std::unordered_map<std::string, int32_t> ids_;
  // What two neighbours make, by MergeKey.
  std::unordered_map<uint64_t, int32_t> merges_;
};

}  // namespace attn
