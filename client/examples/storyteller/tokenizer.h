// The tokenizer of a Llama-type model: byte pairs, merged by score.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// Reads the llama2.c project's format: int32 longest piece, then for each piece
// float32 score, int32 length, bytes. Ids 0 to 2 are unknown, begin and end of
// text, 3 to 258 the bytes. Immutable; thread-safe.
class LlamaTokenizer {
 public:
  static constexpr int32_t kBegin = 1;

  // INVALID_ARGUMENT names what is wrong with the bytes of a file.
  static absl::StatusOr<LlamaTokenizer> Parse(absl::string_view file);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

  // kBegin and, unless the text is empty, a space and the text.
  // INVALID_ARGUMENT names "prompt" if that is more than `longest` tokens.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              int64_t longest) const;

  // What `token`, 0 to size() - 1, adds to the text behind `previous`. One
  // alone may be no whole character.
  std::string Decode(int32_t previous, int32_t token) const;

 private:
  // Characters that are pieces, and the bytes of others.
  std::vector<int32_t> Spell(absl::string_view text) const;
  // The id of two pieces joined; -1: there is none.
  int32_t Joined(int32_t left, int32_t right) const;

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  // Those of more than marks and bytes.
  std::unordered_map<std::string, int32_t> ids_;
  size_t longest_piece_ = 1;
};

}  // namespace attn
