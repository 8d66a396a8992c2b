#include "server/story/heads.h"

#include <string>
#include <utility>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/story/embedded_model.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::Status NotesStatus(const json& document, int64_t layers = 5,
                         int64_t heads = 8) {
  return ParseStoryHeadNotes(document.dump(), layers, heads).status();
}

json Shipped() { return json::parse(StoryHeadsFile()); }

// Of a head that is all of the model; `changes` are made to one of no kind.
StoryHeadNote NoteFor(const json& changes) {
  json head = {{"layer", 0},
               {"head", 0},
               {"previous", 0.1},
               {"bos", 0.1},
               {"entropy", 1.0},
               {"induction", 0.01},
               {"likes", {" he", 0.01, 1.0}}};
  head.update(changes);
  const json document = {{"even_entropy", 4.736}, {"table", {head}}};
  const auto notes = ParseStoryHeadNotes(document.dump(), 1, 1);
  EXPECT_TRUE(notes.ok()) << notes.status();
  return notes->at(0).at(0);
}

// What the model's own report names as the ones to look at first.
TEST(StoryHeads, TheHeadsToLookAtFirstAreToldByWhatTheyDo) {
  const auto notes = ParseStoryHeadNotes(StoryHeadsFile(), 5, 8);
  ASSERT_TRUE(notes.ok()) << notes.status();
  ASSERT_THAT(*notes, SizeIs(5));
  struct {
    size_t layer;
    size_t head;
    const char* kind;
    const char* summary;
  } const expected[] = {
      {0, 0, "previous token", "0.84 of its weight"},
      {0, 1, "previous token", "0.66 of its weight"},
      {4, 2, "previous token", "0.29 of its weight"},
      {1, 0, "induction", "0.17 of its weight"},
      {1, 1, "induction", "0.17 of its weight"},
      {4, 0, "rest position", "0.22 of its weight"},
      {4, 1, "rest position", "0.19 of its weight"},
      {4, 6, "piece", "on the piece ' \"', 14 times"},
      {1, 3, "piece", "on the piece ' \"', 12 times"},
      {3, 6, "piece", "on the piece ' \"', 10 times"},
      {0, 3, "broad", "4.60 nats on average"},
  };
  for (const auto& row : expected) {
    const StoryHeadNote& note = notes->at(row.layer).at(row.head);
    EXPECT_EQ(note.kind, row.kind) << row.layer << " " << row.head;
    EXPECT_THAT(note.summary, HasSubstr(row.summary))
        << row.layer << " " << row.head;
  }
}

TEST(StoryHeads, EveryHeadHasItsNote) {
  const auto notes = ParseStoryHeadNotes(StoryHeadsFile(), 5, 8);
  ASSERT_TRUE(notes.ok()) << notes.status();
  for (const auto& layer : *notes) {
    ASSERT_THAT(layer, SizeIs(8));
    for (const StoryHeadNote& note : layer) {
      EXPECT_FALSE(note.kind.empty());
      EXPECT_FALSE(note.summary.empty());
    }
  }
}

TEST(StoryHeads, TheFirstKindThatHoldsIsTheHeads) {
  json head = {{"induction", 0.5},
               {"previous", 0.9},
               {"bos", 0.9},
               {"likes", {" he", 0.5, 20}},
               {"entropy", 4}};
  for (const auto& [kind, measure] : {std::pair("induction", "induction"),
                                      {"previous token", "previous"},
                                      {"rest position", "bos"},
                                      {"piece", "likes"},
                                      {"broad", "entropy"}}) {
    EXPECT_EQ(NoteFor(head).kind, kind);
    head.erase(measure);
  }
  EXPECT_EQ(NoteFor(head).kind, "mixed");
}

TEST(StoryHeads, AFrequentPieceIsLookedAtByEveryHead) {
  EXPECT_EQ(NoteFor({{"likes", {" the", 0.5, 2.0}}}).kind, "mixed");
}

TEST(StoryHeads, ABroadHeadIsToldWithAnEvenSpread) {
  EXPECT_THAT(NoteFor({{"entropy", 4}}).summary,
              HasSubstr("4.00 nats on average (an even spread has about 4.74"));
}

TEST(StoryHeads, ATableOfAnotherShapeIsRefused) {
  EXPECT_EQ(FieldOf(NotesStatus(Shipped(), 4, 8)), "heads.table");
  EXPECT_EQ(FieldOf(NotesStatus(Shipped(), 8, 5)), "heads.table[5]");
  json twice = Shipped();
  twice["table"][1]["head"] = 0;
  EXPECT_EQ(FieldOf(NotesStatus(twice)), "heads.table[1]");
  json negative = Shipped();
  negative["table"][0]["layer"] = -1;
  EXPECT_EQ(FieldOf(NotesStatus(negative)), "heads.table[0]");
}

TEST(StoryHeads, WhatIsNoSuchFileIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "{}", "\xFF"}) {
    EXPECT_EQ(FieldOf(ParseStoryHeadNotes(text, 5, 8).status()),
              "heads.even_entropy")
        << text;
  }
  for (const char* key : {"previous", "bos", "entropy", "induction", "likes"}) {
    json without = Shipped();
    without["table"][3].erase(key);
    EXPECT_EQ(FieldOf(NotesStatus(without)), "heads.table[3]") << key;
    json other = Shipped();
    other["table"][3][key] = "much";
    EXPECT_EQ(FieldOf(NotesStatus(other)), "heads.table[3]") << key;
  }
  json row = Shipped();
  row["table"][2] = 7;
  EXPECT_EQ(FieldOf(NotesStatus(row)), "heads.table[2]");
}

}  // namespace
}  // namespace attn
