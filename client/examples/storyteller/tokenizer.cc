#include "client/examples/storyteller/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr int32_t kFirstByteId = 3;
constexpr int32_t kFirstPieceId = kFirstByteId + 256;
constexpr size_t kLongestCharacter = 4;

template <typename Value>
bool Take(absl::string_view& bytes, Value& value) {
  if (bytes.size() < sizeof(value)) return false;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes.remove_prefix(sizeof(value));
  return true;
}

// A byte of UTF-8 that goes on with a character.
bool GoesOn(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

size_t FirstCharacter(absl::string_view text) {
  size_t size = 1;
  while (size < text.size() && size < kLongestCharacter && GoesOn(text[size])) {
    ++size;
  }
  return size;
}

}  // namespace

absl::StatusOr<LlamaTokenizer> LlamaTokenizer::Parse(absl::string_view file) {
  int32_t longest = 0;
  if (!Take(file, longest) || longest < 1) {
    return FieldError("tokenizer", absl::StrCat(longest),
                      "the length of the longest piece first, 1 or more");
  }
  LlamaTokenizer tokenizer;
  while (!file.empty()) {
    const std::string field =
        absl::StrCat("tokenizer.pieces[", tokenizer.size(), "]");
    float score = 0;
    int32_t length = 0;
    if (!Take(file, score) || !Take(file, length) || !std::isfinite(score) ||
        length < 0 || static_cast<size_t>(length) > file.size()) {
      return FieldError(field, "something else or the end of the file",
                        "a finite score, a length and as many bytes");
    }
    const std::string piece(file.substr(0, static_cast<size_t>(length)));
    file.remove_prefix(piece.size());
    if (tokenizer.size() >= kFirstPieceId) {
      tokenizer.ids_.emplace(piece, static_cast<int32_t>(tokenizer.size()));
      tokenizer.longest_piece_ =
          std::max(tokenizer.longest_piece_, piece.size());
    }
    tokenizer.pieces_.push_back(piece);
    tokenizer.scores_.push_back(score);
  }
  if (tokenizer.size() < kFirstPieceId) {
    return FieldError("tokenizer", absl::StrCat(tokenizer.size(), " pieces"),
                      absl::StrCat(kFirstPieceId, " at least"));
  }
  return tokenizer;
}

std::vector<int32_t> LlamaTokenizer::Spell(absl::string_view text) const {
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    const std::string character(text.substr(0, FirstCharacter(text)));
    text.remove_prefix(character.size());
    const auto found = ids_.find(character);
    if (found != ids_.end()) {
      tokens.push_back(found->second);
      continue;
    }
    for (const char byte : character) {
      tokens.push_back(kFirstByteId + static_cast<uint8_t>(byte));
    }
  }
  return tokens;
}

int32_t LlamaTokenizer::Joined(int32_t left, int32_t right) const {
  if (left < kFirstPieceId || right < kFirstPieceId) return -1;
  const auto found = ids_.find(pieces_[static_cast<size_t>(left)] +
                               pieces_[static_cast<size_t>(right)]);
  return found == ids_.end() ? -1 : found->second;
}

absl::StatusOr<std::vector<int32_t>> LlamaTokenizer::Encode(
    absl::string_view text, int64_t longest) const {
  std::vector<int32_t> tokens;
  // Merging takes the square of the length: what never fits is not begun.
  const bool fits =
      text.size() <=
      static_cast<size_t>(std::max<int64_t>(longest, 0)) * longest_piece_;
  if (fits && !text.empty()) tokens = Spell(absl::StrCat(" ", text));
  while (true) {
    int32_t best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const int32_t joined = Joined(tokens[i], tokens[i + 1]);
      if (joined < 0) continue;
      if (best < 0 || scores_[static_cast<size_t>(joined)] >
                          scores_[static_cast<size_t>(best)]) {
        best = joined;
        at = i;
      }
    }
    if (best < 0) break;
    tokens[at] = best;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  tokens.insert(tokens.begin(), kBegin);
  if (fits && static_cast<int64_t>(tokens.size()) <= longest) return tokens;
  return FieldError("prompt",
                    fits ? absl::StrCat(tokens.size(), " tokens")
                         : absl::StrCat(text.size(), " bytes"),
                    absl::StrCat(longest, " tokens at most"));
}

std::string LlamaTokenizer::Decode(int32_t previous, int32_t token) const {
  if (token < kFirstByteId) return "";
  if (token < kFirstPieceId) {
    return std::string(1, static_cast<char>(token - kFirstByteId));
  }
  const std::string& piece = pieces_[static_cast<size_t>(token)];
  const bool drops_space =
      previous == kBegin && !piece.empty() && piece[0] == ' ';
  return drops_space ? piece.substr(1) : piece;
}

}  // namespace attn
