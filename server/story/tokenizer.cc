#include "server/story/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "server/story/story_bytes.h"

namespace attn {
namespace {

constexpr std::array<absl::string_view, 3> kMarks = {"<unk>", "<s>", "</s>"};
constexpr int32_t kFirstByte = 3;
constexpr int32_t kByteCount = 256;
constexpr int32_t kFirstPiece = kFirstByte + kByteCount;

// Bounds of what a file may ask for: ids beyond need no more than 16 bits, and
// a piece is a word at most.
constexpr size_t kMostPieces = 1 << 16;
constexpr int32_t kLongestPiece = 256;

bool IsByte(int32_t id) { return id >= kFirstByte && id < kFirstPiece; }

std::string HexName(int32_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return absl::StrCat("<0x", std::string(1, kDigits[byte / 16]),
                      std::string(1, kDigits[byte % 16]), ">");
}

// The bytes of the first character of UTF-8 (RFC 3629, section 4); 0 if it is
// not well-formed.
size_t CharacterSize(absl::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Neither longer than need be, nor a surrogate, nor beyond U+10FFFF.
  const bool bad =
      (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F);
  return bad ? 0 : size;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

uint64_t MergeKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

struct Record {
  float score = 0;
  absl::string_view piece;
};

absl::StatusOr<Record> ReadRecord(StoryBytes& bytes, absl::string_view field,
                                  int32_t longest) {
  const auto score = bytes.Read<float>();
  const auto size = score ? bytes.Read<int32_t>() : std::nullopt;
  if (!size.has_value()) {
    return FieldError(field, "the end of the file", "a score and a length");
  }
  if (!std::isfinite(*score)) {
    return FieldError(absl::StrCat(field, ".score"), absl::StrCat(*score),
                      "a finite number");
  }
  if (*size < 1 || *size > longest) {
    return FieldError(absl::StrCat(field, ".length"), absl::StrCat(*size),
                      absl::StrCat("1 to ", longest));
  }
  const auto piece = bytes.ReadText(static_cast<size_t>(*size));
  if (!piece.has_value()) {
    return FieldError(field, absl::StrCat(bytes.left(), " bytes to the end"),
                      absl::StrCat("a piece of ", *size));
  }
  return Record{*score, *piece};
}

absl::Status TooLong(absl::string_view got, int64_t longest) {
  return FieldError(
      "text", got,
      absl::StrCat("at most ", longest, " tokens with the begin of text"));
}

}  // namespace

absl::StatusOr<StoryTokenizer> StoryTokenizer::Parse(absl::string_view bytes) {
  StoryBytes rest(bytes);
  const auto longest = rest.Read<int32_t>();
  if (!longest.has_value() || *longest < 1 || *longest > kLongestPiece) {
    return FieldError("tokenizer.longest_piece",
                      longest ? absl::StrCat(*longest) : "the end of the file",
                      absl::StrCat("1 to ", kLongestPiece));
  }
  StoryTokenizer tokenizer;
  while (rest.left() > 0) {
    const std::string field =
        absl::StrCat("tokenizer.pieces[", tokenizer.size(), "]");
    const absl::StatusOr<Record> record = ReadRecord(rest, field, *longest);
    if (!record.ok()) return record.status();
    absl::Status status = tokenizer.Add(record->piece, record->score);
    if (!status.ok()) return status;
  }
  if (tokenizer.size() < kFirstPiece) {
    return FieldError("tokenizer.pieces", absl::StrCat(tokenizer.size()),
                      absl::StrCat(kFirstPiece, " at least"));
  }
  tokenizer.FindMerges();
  return tokenizer;
}

absl::Status StoryTokenizer::Add(absl::string_view piece, float score) {
  const auto id = static_cast<int32_t>(pieces_.size());
  const std::string field = absl::StrCat("tokenizer.pieces[", id, "]");
  if (pieces_.size() == kMostPieces) {
    return FieldError(field, "one more", absl::StrCat("at most ", kMostPieces));
  }
  if (IsByte(id) && piece != HexName(id - kFirstByte)) {
    return FieldError(field, "another piece", HexName(id - kFirstByte));
  }
  if (id >= kFirstPiece) {
    if (!IsUtf8(piece)) {
      return FieldError(field, "bytes that are no text", "UTF-8");
    }
    if (!ids_.emplace(piece, id).second) {
      return FieldError(field, "a piece that came before",
                        "a piece of its own");
    }
    longest_piece_ = std::max(longest_piece_, piece.size());
  }
  pieces_.emplace_back(piece);
  scores_.push_back(score);
  return absl::OkStatus();
}

void StoryTokenizer::FindMerges() {
  for (int64_t id = kFirstPiece; id < size(); ++id) {
    const std::string& piece = pieces_[static_cast<size_t>(id)];
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = ids_.find(piece.substr(0, cut));
      const auto right = ids_.find(piece.substr(cut));
      if (left == ids_.end() || right == ids_.end()) continue;
      merges_[MergeKey(left->second, right->second)] = static_cast<int32_t>(id);
    }
  }
}

std::vector<int32_t> StoryTokenizer::Spell(absl::string_view text) const {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const size_t size = std::max<size_t>(CharacterSize(text), 1);
    const std::string character(text.substr(0, size));
    text.remove_prefix(size);
    if (const auto found = ids_.find(character); found != ids_.end()) {
      ids.push_back(found->second);
      continue;
    }
    for (const char byte : character) {
      ids.push_back(kFirstByte + static_cast<uint8_t>(byte));
    }
  }
  return ids;
}

// The best pair first, the leftmost of equals: the order that training had.
void StoryTokenizer::Merge(std::vector<int32_t>& ids) const {
  while (true) {
    std::optional<size_t> best;
    int32_t merged = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges_.find(MergeKey(ids[i], ids[i + 1]));
      if (found == merges_.end()) continue;
      if (!best || scores_[static_cast<size_t>(found->second)] >
                       scores_[static_cast<size_t>(merged)]) {
        best = i;
        merged = found->second;
      }
    }
    if (!best) return;
    ids[*best] = merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(*best) + 1);
  }
}

absl::StatusOr<std::vector<int32_t>> StoryTokenizer::Encode(
    absl::string_view text, int64_t longest) const {
  // No token stands for more bytes, so that the quadratic merging is bounded.
  const size_t most = static_cast<size_t>(std::max<int64_t>(longest, 0)) *
                      std::max<size_t>(longest_piece_, 1);
  if (text.size() > most) {
    return TooLong(absl::StrCat(text.size(), " bytes"), longest);
  }
  std::vector<int32_t> ids;
  if (!text.empty()) ids = Spell(absl::StrCat(" ", text));
  Merge(ids);
  ids.insert(ids.begin(), kBeginOfText);
  if (static_cast<int64_t>(ids.size()) > longest) {
    return TooLong(absl::StrCat(ids.size(), " tokens"), longest);
  }
  return ids;
}

absl::Status StoryTokenizer::CheckId(int32_t id,
                                     absl::string_view field) const {
  if (id >= 0 && id < size()) return absl::OkStatus();
  return FieldError(field, absl::StrCat(id), absl::StrCat("0 to ", size() - 1));
}

std::string StoryTokenizer::BytesOf(int32_t id) const {
  if (id < kFirstByte) return "";
  if (IsByte(id)) return std::string(1, static_cast<char>(id - kFirstByte));
  return pieces_[static_cast<size_t>(id)];
}

absl::StatusOr<std::string> StoryTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    absl::Status status = CheckId(ids[i], absl::StrCat("ids[", i, "]"));
    if (!status.ok()) return status;
    const std::string piece = BytesOf(ids[i]);
    const bool first = i > 0 && ids[i - 1] == kBeginOfText;
    const bool space = first && !piece.empty() && piece.front() == ' ';
    text.append(piece, space ? 1 : 0);
  }
  return text;
}

absl::StatusOr<std::string> StoryTokenizer::Display(int32_t id) const {
  absl::Status status = CheckId(id, "id");
  if (!status.ok()) return status;
  if (id < kFirstByte) {
    return std::string(kMarks[static_cast<size_t>(id)]);
  }
  const int32_t byte = id - kFirstByte;
  const bool visible = byte > ' ' && byte <= '~';
  if (IsByte(id) && !visible) return HexName(byte);
  return BytesOf(id);
}

}  // namespace attn
