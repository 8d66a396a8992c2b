#include "server/story/heads.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using nlohmann::json;

// From where on a head is called by what it does; an even spread over a row of
// some hundred tokens would give each about 0.01.
constexpr double kInductionShare = 0.1;
constexpr double kPreviousShare = 0.25;
constexpr double kRestShare = 0.15;
constexpr double kPieceShare = 0.08;
constexpr double kPieceLift = 8;
// As nats of a row's entropy.
constexpr double kBroadEntropy = 3.5;

struct Measures {
  double previous = 0;
  double bos = 0;
  double entropy = 0;
  double induction = 0;
  std::string piece;
  double piece_share = 0;
  double piece_lift = 0;
};

StoryHeadNote NoteOf(const Measures& m, double even_entropy) {
  if (m.induction >= kInductionShare) {
    return {"induction",
            absl::StrFormat("on random tokens given twice, %.2f of its weight "
                            "is on what followed the same token the first time",
                            m.induction)};
  }
  if (m.previous >= kPreviousShare) {
    return {"previous token",
            absl::StrFormat("%.2f of its weight is on the token just before",
                            m.previous)};
  }
  if (m.bos >= kRestShare) {
    return {"rest position",
            absl::StrFormat("%.2f of its weight rests on the begin of text",
                            m.bos)};
  }
  if (m.piece_share >= kPieceShare && m.piece_lift >= kPieceLift) {
    return {"piece",
            absl::StrFormat("%.2f of its weight outside the begin of text is "
                            "on the piece '%s', %.0f times what its frequency "
                            "would give",
                            m.piece_share, m.piece, m.piece_lift)};
  }
  const std::string spread = absl::StrFormat(
      "a row's entropy is %.2f nats on average (an even spread "
      "has about %.2f)",
      m.entropy, even_entropy);
  return {m.entropy > kBroadEntropy ? "broad" : "mixed", spread};
}

absl::Status Missing(absl::string_view field, absl::string_view expected) {
  return FieldError(absl::StrCat("heads.", field), "something else or nothing",
                    expected);
}

bool ReadNumber(const json& object, const char* key, double& number) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return false;
  number = found->get<double>();
  return true;
}

bool ReadMeasures(const json& row, Measures& m) {
  const auto likes = row.find("likes");
  if (likes == row.end() || !likes->is_array() || likes->size() != 3 ||
      !(*likes)[0].is_string() || !(*likes)[1].is_number() ||
      !(*likes)[2].is_number()) {
    return false;
  }
  m.piece = (*likes)[0].get<std::string>();
  m.piece_share = (*likes)[1].get<double>();
  m.piece_lift = (*likes)[2].get<double>();
  return ReadNumber(row, "previous", m.previous) &&
         ReadNumber(row, "bos", m.bos) &&
         ReadNumber(row, "entropy", m.entropy) &&
         ReadNumber(row, "induction", m.induction);
}

// Below `size`; none if it is no such number.
std::optional<size_t> ReadIndex(const json& row, const char* key, size_t size) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto index = found->get<uint64_t>();
  if (index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

}  // namespace

absl::StatusOr<std::vector<std::vector<StoryHeadNote>>> ParseStoryHeadNotes(
    absl::string_view json_text, int64_t layers, int64_t heads) {
  const json document = json::parse(json_text.begin(), json_text.end(), nullptr,
                                    /*allow_exceptions=*/false);
  double even_entropy = 0;
  if (!document.is_object() ||
      !ReadNumber(document, "even_entropy", even_entropy)) {
    return Missing("even_entropy", "a number in a JSON object");
  }
  const auto table = document.find("table");
  if (table == document.end() || !table->is_array() ||
      static_cast<int64_t>(table->size()) != layers * heads) {
    return Missing("table", absl::StrCat(layers * heads, " rows"));
  }
  std::vector<std::vector<StoryHeadNote>> notes(
      static_cast<size_t>(layers),
      std::vector<StoryHeadNote>(static_cast<size_t>(heads)));
  for (size_t i = 0; i < table->size(); ++i) {
    const json& row = (*table)[i];
    const std::string field = absl::StrCat("table[", i, "]");
    if (!row.is_object()) return Missing(field, "an object");
    const auto layer = ReadIndex(row, "layer", notes.size());
    const auto head = ReadIndex(row, "head", static_cast<size_t>(heads));
    if (!layer || !head || !notes[*layer][*head].kind.empty()) {
      return Missing(field, "the layer and head of no other row");
    }
    Measures measures;
    if (!ReadMeasures(row, measures)) {
      return Missing(field,
                     "numbers previous, bos, entropy and induction, and "
                     "likes of a piece, its share and its lift");
    }
    notes[*layer][*head] = NoteOf(measures, even_entropy);
  }
  return notes;
}

}  // namespace attn
