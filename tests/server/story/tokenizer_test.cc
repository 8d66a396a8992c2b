#include "server/story/tokenizer.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/story/embedded_model.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLongest = 4096;

struct PieceRecord {
  std::string piece;
  float score = 0;
};

// A file's bytes, as model/README.md describes them.
std::string FileOf(const std::vector<PieceRecord>& records,
                   int32_t longest = 16) {
  std::string bytes(reinterpret_cast<const char*>(&longest), sizeof(longest));
  for (const PieceRecord& record : records) {
    const auto size = static_cast<int32_t>(record.piece.size());
    bytes.append(reinterpret_cast<const char*>(&record.score), sizeof(float));
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += record.piece;
  }
  return bytes;
}

// The marks and the bytes, which every file begins with.
std::vector<PieceRecord> Beginning() {
  std::vector<PieceRecord> records = {{"<unk>"}, {"<s>"}, {"</s>"}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    records.push_back({name});
  }
  return records;
}

StoryTokenizer WithPieces(const std::vector<PieceRecord>& pieces) {
  std::vector<PieceRecord> records = Beginning();
  records.insert(records.end(), pieces.begin(), pieces.end());
  auto tokenizer = StoryTokenizer::Parse(FileOf(records));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

absl::Status ParseStatus(const std::vector<PieceRecord>& records) {
  return StoryTokenizer::Parse(FileOf(records)).status();
}

class StoryTokenizerTest : public ::testing::Test {
 protected:
  StoryTokenizerTest()
      : shipped_(*StoryTokenizer::Parse(StoryTokenizerFile())) {}

  void ExpectRoundTrip(const std::string& text) const {
    const auto ids = shipped_.Encode(text, kLongest);
    ASSERT_TRUE(ids.ok()) << ids.status();
    const auto decoded = shipped_.Decode(*ids);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, text);
  }

  StoryTokenizer shipped_;
};

TEST_F(StoryTokenizerTest, TheGoldenPromptsHaveTheGoldenIds) {
  std::ifstream stream(std::string(ATTN_SOURCE_DIR) +
                       "/tests/server/story/data/golden.json");
  const json cases = json::parse(stream).at("cases");
  ASSERT_EQ(cases.size(), 2u);
  for (const json& golden : cases) {
    auto ids = golden.at("prompt_ids").get<std::vector<int32_t>>();
    EXPECT_EQ(*shipped_.Encode(golden.at("prompt").get<std::string>(), 256),
              ids);
    const auto next = golden.at("continuation_ids").get<std::vector<int32_t>>();
    ids.insert(ids.end(), next.begin(), next.end());
    EXPECT_EQ(*shipped_.Decode(ids), golden.at("text").get<std::string>());
  }
}

TEST_F(StoryTokenizerTest, TheSentenceOfTheExampleHasItsIds) {
  EXPECT_THAT(
      *shipped_.Encode("Heidi looked at Peter, and Peter looked at Heidi.",
                       256),
      ElementsAre(1, 430, 303, 458, 289, 332, 407, 369, 429, 328, 273, 470, 275,
                  429, 328, 273, 289, 332, 407, 369, 430, 303, 458, 473));
}

TEST_F(StoryTokenizerTest, AnEmptyTextIsTheBeginOfText) {
  EXPECT_THAT(*shipped_.Encode("", 1), ElementsAre(1));
  EXPECT_EQ(*shipped_.Decode({}), "");
}

TEST_F(StoryTokenizerTest, EveryTextComesBack) {
  for (const char* text :
       {" ", "  two spaces", "line\nend\n", "caf\xC3\xA9", "\xF0\x9F\xA6\x8A",
        "<s>", "<0x41>", "tab\tand @#$"}) {
    ExpectRoundTrip(text);
  }
  // No UTF-8: cut, too long for what it says, a surrogate, no lead byte.
  for (const char* text :
       {"\xC3", "\xE2\x82", "\xC0\x80", "\xED\xA0\x80", "\x80\xFF"}) {
    ExpectRoundTrip(text);
  }
  ExpectRoundTrip(std::string("nul\0inside", 10));
}

TEST_F(StoryTokenizerTest, RandomBytesAndLettersComeBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::string bytes;
    std::string letters;
    for (size_t i = random() % 64; i > 0; --i) {
      bytes += static_cast<char>(random() % 256);
      letters += "theandrb \n"[random() % 10];
    }
    ExpectRoundTrip(bytes);
    ExpectRoundTrip(letters);
  }
}

TEST_F(StoryTokenizerTest, NoTwoNeighboursAreLeftThatJoin) {
  const auto ids = shipped_.Encode("the thin thing and the other hand", 256);
  ASSERT_TRUE(ids.ok());
  std::vector<std::string> pieces;
  for (int32_t id = 259; id < 512; ++id) {
    pieces.push_back(*shipped_.Display(id));
  }
  for (size_t i = 1; i + 1 < ids->size(); ++i) {
    const std::string joined =
        *shipped_.Display((*ids)[i]) + *shipped_.Display((*ids)[i + 1]);
    EXPECT_THAT(pieces, ::testing::Not(::testing::Contains(joined)));
  }
}

TEST_F(StoryTokenizerTest, ATextThatIsTooLongIsRefused) {
  const auto status = [this](const std::string& text, int64_t longest) {
    return shipped_.Encode(text, longest).status();
  };
  // "a" and its space are one piece; begin of text is another.
  EXPECT_TRUE(status("a", 2).ok());
  EXPECT_EQ(FieldOf(status("a", 1)), "text");
  EXPECT_THAT(status("a", 1).message(),
              HasSubstr("got 2 tokens, expected at most 1 tokens"));
  // Not even spelt: no 256 tokens have so many bytes.
  EXPECT_THAT(
      status(std::string(1 << 20, 'a'), 256).message(),
      HasSubstr("text: got 1048576 bytes, expected at most 256 tokens"));
  EXPECT_EQ(FieldOf(status("", 0)), "text");
  EXPECT_EQ(FieldOf(status("", -1)), "text");
}

TEST_F(StoryTokenizerTest, WhatIsShownIsReadable) {
  EXPECT_EQ(shipped_.size(), 512);
  EXPECT_EQ(*shipped_.Display(0), "<unk>");
  EXPECT_EQ(*shipped_.Display(1), "<s>");
  EXPECT_EQ(*shipped_.Display(2), "</s>");
  EXPECT_EQ(*shipped_.Display(3), "<0x00>");
  EXPECT_EQ(*shipped_.Display(3 + '@'), "@");
  EXPECT_EQ(*shipped_.Display(3 + ' '), "<0x20>");
  EXPECT_EQ(*shipped_.Display(3 + 0x7F), "<0x7F>");
  EXPECT_EQ(*shipped_.Display(3 + 0xC3), "<0xC3>");
  EXPECT_EQ(*shipped_.Display(258), "<0xFF>");
  EXPECT_EQ(*shipped_.Display(430), " He");
  for (int32_t id = 0; id < 512; ++id) {
    // dump() throws at what is no UTF-8.
    EXPECT_NO_THROW(json(*shipped_.Display(id)).dump()) << id;
  }
}

TEST_F(StoryTokenizerTest, IdsThatThereAreNotAreRefused) {
  EXPECT_EQ(FieldOf(shipped_.Display(-1).status()), "id");
  EXPECT_EQ(FieldOf(shipped_.Display(512).status()), "id");
  const std::vector<int32_t> ids = {1, 512};
  EXPECT_EQ(FieldOf(shipped_.Decode(ids).status()), "ids[1]");
}

TEST_F(StoryTokenizerTest, MarksAreNoText) {
  const std::vector<int32_t> ids = {0, 1, 430, 303, 2, 430};
  EXPECT_EQ(*shipped_.Decode(ids), "Heid He");
}

// Ids from 259 on: " ", "a", "b", "c", then what joins.
TEST(StoryTokenizer, TheBestPairJoinsFirst) {
  const auto encode = [](float ab, float bc) {
    return *WithPieces({{" "}, {"a"}, {"b"}, {"c"}, {"ab", ab}, {"bc", bc}})
                .Encode("abc", 8);
  };
  EXPECT_THAT(encode(2, 1), ElementsAre(1, 259, 263, 262));
  EXPECT_THAT(encode(1, 2), ElementsAre(1, 259, 260, 264));
  // Equals: the leftmost.
  EXPECT_THAT(encode(1, 1), ElementsAre(1, 259, 263, 262));
}

TEST(StoryTokenizer, APieceMayJoinInMoreWaysThanOne) {
  const StoryTokenizer tokenizer = WithPieces(
      {{" "}, {"a"}, {"b"}, {"c"}, {"abc", 1}, {"bc", 2}, {"ab", 0}});
  EXPECT_THAT(*tokenizer.Encode("abc", 8), ElementsAre(1, 259, 263));
  EXPECT_THAT(*tokenizer.Encode("ab", 8), ElementsAre(1, 259, 265));
}

TEST(StoryTokenizer, ACharacterOfSeveralBytesMayHaveAPiece) {
  const StoryTokenizer tokenizer = WithPieces({{" "}, {"\xC3\xA9"}});
  EXPECT_THAT(*tokenizer.Encode("\xC3\xA9\xC3", 8),
              ElementsAre(1, 259, 260, 3 + 0xC3));
  EXPECT_EQ(*tokenizer.Display(260), "\xC3\xA9");
}

TEST(StoryTokenizer, BytesNeverJoin) {
  const StoryTokenizer tokenizer = WithPieces({{" "}, {"\xC3\xA9z", 1}});
  EXPECT_THAT(*tokenizer.Encode("\xC3\xA9z", 8),
              ElementsAre(1, 259, 3 + 0xC3, 3 + 0xA9, 3 + 'z'));
}

// The file does not say how many records it has: cut between two of them it is
// a shorter one, if the bytes are there.
TEST(StoryTokenizer, AFileThatIsCutInsideOfARecordIsRefused) {
  std::vector<PieceRecord> records = Beginning();
  for (const char* piece : {"a", "bb", "ccc"}) records.push_back({piece});
  const std::string file = FileOf(records);
  std::vector<int64_t> accepted;
  const auto cut = [&](size_t size) {
    const auto tokenizer =
        StoryTokenizer::Parse(absl::string_view(file).substr(0, size));
    if (tokenizer.ok()) accepted.push_back(tokenizer->size());
  };
  for (size_t size = 0; size < 64; ++size) cut(size);
  for (size_t size = file.size() - 64; size < file.size(); ++size) cut(size);
  EXPECT_THAT(accepted, ElementsAre(259, 260, 261));
}

TEST(StoryTokenizer, HostileLengthsAreRefused) {
  for (const int32_t length : {0, -1, 7, std::numeric_limits<int32_t>::min(),
                               std::numeric_limits<int32_t>::max()}) {
    std::string bytes(StoryTokenizerFile());
    std::memcpy(bytes.data() + 8, &length, sizeof(length));
    EXPECT_EQ(FieldOf(StoryTokenizer::Parse(bytes).status()),
              "tokenizer.pieces[0].length")
        << length;
  }
  for (const int32_t longest : {0, -1, 257, 1 << 30}) {
    EXPECT_EQ(
        FieldOf(StoryTokenizer::Parse(FileOf(Beginning(), longest)).status()),
        "tokenizer.longest_piece")
        << longest;
  }
}

TEST(StoryTokenizer, AFileThatIsNoVocabularyIsRefused) {
  std::vector<PieceRecord> records = Beginning();
  EXPECT_TRUE(ParseStatus(records).ok());
  records[3 + 'A'].piece = "<0x42>";
  EXPECT_EQ(FieldOf(ParseStatus(records)), "tokenizer.pieces[68]");
  records = Beginning();
  records.pop_back();
  EXPECT_EQ(FieldOf(ParseStatus(records)), "tokenizer.pieces");
  records = Beginning();
  records.push_back({"a"});
  records.push_back({"a"});
  EXPECT_THAT(ParseStatus(records).message(),
              HasSubstr("pieces[260]: got a piece that came before"));
  records.back() = {"b", std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(FieldOf(ParseStatus(records)), "tokenizer.pieces[260].score");
}

TEST(StoryTokenizer, PiecesAreUtf8) {
  std::vector<PieceRecord> records = Beginning();
  records.emplace_back();
  // The smallest and the largest of each length, and beside the surrogates.
  for (const char* good :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    records.back().piece = good;
    EXPECT_TRUE(ParseStatus(records).ok()) << good;
  }
  // Cut, no lead byte, longer than need be, surrogates, beyond U+10FFFF.
  for (const char* bad :
       {"\xC3", "a\xE2\x82", "\xC3z", "\x80", "\xFF", "\xC1\xBF",
        "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    records.back().piece = bad;
    EXPECT_THAT(ParseStatus(records).message(),
                HasSubstr("pieces[259]: got bytes that are no text"))
        << bad;
  }
}

}  // namespace
}  // namespace attn
