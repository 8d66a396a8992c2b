#include "engine/programs/parser.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

ProgramCall CallWithTables() {
  ProgramCall call(2, 3, 4, 5);
  call.AddTable<float>("slope", DType::kF32, {3}, {1, 2, 3});
  call.AddTable<int32_t>("segment", DType::kI32, {2, 5},
                         {0, 0, 1, 1, 1, 0, 1, 2, 3, 4});
  return call;
}

struct Wrong {
  ProgramKind kind;
  const char* source;
  const char* got;
  const char* expected;
};

constexpr ProgramKind kScore = ProgramKind::kScore;
constexpr ProgramKind kMask = ProgramKind::kMask;
constexpr ProgramKind kWeight = ProgramKind::kWeight;

constexpr Wrong kWrong[] = {
    {kScore, "", "the end at column 1", "a number, a name"},
    {kScore, "   ", "the end at column 4", "a number, a name"},
    {kScore, "score +", "the end at column 8", "a number, a name"},
    {kScore, "score + * 2", "\"*\" at column 9", "a number, a name"},
    {kScore, "score 2", "\"2\" at column 7", "an operator or the end"},
    {kScore, "(score", "the end at column 7", "\")\""},
    {kScore, "score)", "\")\" at column 6", "an operator or the end"},
    {kScore, "2k", "\"2k\" at column 1", "a number, a name"},
    {kScore, "1e999 + k", "\"1e999\" at column 1", "a number"},
    {kScore, "score $ 2", "\"$\" at column 7", "an operator or the end"},
    {kScore, "score + \x01", "\"\\x01\" at column 9", "a number, a name"},
    {kScore, "score = 2", "\"=\" at column 7", "an operator or the end"},
    {kScore, "scor + 1", "\"scor\" at column 1", "score, b, h, q, k"},
    {kScore, "1 + weight", "\"weight\" at column 5", "score, b, h"},
    {kWeight, "1 + score", "\"score\" at column 5", "weight, b, h"},
    {kMask, "1 < score", "\"score\" at column 5", "one of b, h, q"},
    {kMask, "weight > 0", "\"weight\" at column 1", "slope, segment"},
    {kScore, "exp", "the end at column 4", "\"(\""},
    {kScore, "k + exp()", "\")\" at column 9", "a number, a name"},
    {kScore, "1 + exp(1, 2)", "\"exp\" at column 5", "1 arguments, not 2"},
    {kScore, "max(1)", "\"max\" at column 1", "2 arguments, not 1"},
    {kScore, "clamp(1, 2)", "\"clamp\" at column 1", "3 arguments, not 2"},
    {kScore, "max(1, 2, 3, 4)", "\"4\" at column 14", "no more than 3"},
    {kScore, "slope", "the end at column 6", "\"[\""},
    {kScore, "slope[1, 2]", "\"slope\" at column 1", "1 index, the table's"},
    {kScore, "segment[1]", "\"segment\" at column 1", "2 indices, the"},
    {kScore, "slope[k < 2]", "\"k\" at column 7", "a number for slope"},
    {kScore, "slope(1)", "\"(\" at column 6", "\"[\""},
    {kScore, "1 + (k < q)", "\"+\" at column 3", "numbers on both sides"},
    {kMask, "k < q < p", "\"<\" at column 7", "numbers on both sides"},
    {kMask, "k && true", "\"&&\" at column 3", "bools on both sides"},
    {kMask, "k == true", "\"==\" at column 3", "numbers, or bools"},
    {kMask, "!k", "\"!\" at column 1", "a bool after it"},
    {kScore, "1 + -true", "\"-\" at column 5", "a number after it"},
    {kScore, "k ? 1 : 2", "\"?\" at column 3", "a bool before it"},
    {kScore, "true ? 1 : false", "\"?\" at column 6", "numbers, or bools"},
    {kScore, "true ? 1", "the end at column 9", "\":\""},
    {kScore, "abs(k < 1)", "\"k\" at column 5", "a number for abs"},
    {kScore, "k < q", "a bool from column 1", "a number: the new value"},
    {kMask, "k + q", "a number from column 1", "a bool: whether"},
};

TEST(ParserTest, ErrorNamesFieldColumnAndWhatWasExpected) {
  const ProgramCall call = CallWithTables();
  for (const Wrong& wrong : kWrong) {
    const auto program = call.Compile(wrong.kind, wrong.source);
    ASSERT_FALSE(program.ok()) << wrong.source;
    EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(program.status()), "spec.program.source");
    const std::string message(program.status().message());
    EXPECT_THAT(message, HasSubstr(wrong.got)) << wrong.source;
    EXPECT_THAT(message, HasSubstr(wrong.expected)) << wrong.source;
  }
}

struct WrongTables {
  std::vector<ProgramTable> tables;
  const char* field;
  const char* expected;
};

TEST(ParserTest, TableErrorNamesTheTable) {
  ProgramCall call = CallWithTables();
  call.AddTable<float>("cube", DType::kF32, {1, 1, 1}, {1});
  call.AddTable<int8_t>("bytes", DType::kI8, {1}, {1});
  const std::vector<WrongTables> cases = {
      {{{"", 0}}, "spec.tables[0].name", "letters"},
      {{{"1a", 0}}, "spec.tables[0].name", "letters"},
      {{{"a b", 0}}, "spec.tables[0].name", "letters"},
      {{{"exp", 0}}, "spec.tables[0].name", "mean nothing else"},
      {{{"k", 0}}, "spec.tables[0].name", "mean nothing else"},
      {{{"a", 0}, {"a", 1}}, "spec.tables[1].name", "than tables[0]"},
      {{{"a", 9}}, "spec.tables[0].tensor.input", "one of 4 inputs"},
      {{{"a", 2}}, "spec.tables[0].tensor.input", "rank 1 or 2"},
      {{{"a", 3}}, "spec.tables[0].tensor.input", "BOOL"},
      {std::vector<ProgramTable>(17, {"a", 0}), "spec.tables", "at most 16"},
  };
  for (const WrongTables& wrong : cases) {
    const auto program =
        Program::Compile({"k", wrong.tables}, call.problem(), kScore, "spec");
    ASSERT_FALSE(program.ok()) << wrong.field;
    EXPECT_EQ(FieldOf(program.status()), wrong.field);
    EXPECT_THAT(std::string(program.status().message()),
                HasSubstr(wrong.expected));
  }
}

std::string Repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// `leaves` ones, added up as a balanced tree.
std::string Sum(int leaves) {
  if (leaves == 1) return "1";
  return absl::StrCat("(", Sum(leaves / 2), "+", Sum(leaves - leaves / 2), ")");
}

TEST(ParserTest, BoundsAreExact) {
  const ProgramCall call = CallWithTables();
  const auto compiles = [&](const auto&... parts) {
    return call.Compile(kScore, absl::StrCat(parts...)).ok();
  };
  EXPECT_TRUE(compiles("1", std::string(1023, ' ')));
  EXPECT_FALSE(compiles("1", std::string(1024, ' ')));
  // n leaves and n - 1 operators.
  EXPECT_TRUE(compiles(Sum(128)));
  EXPECT_TRUE(compiles("-", Sum(128)));
  EXPECT_FALSE(compiles("--", Sum(128)));
  EXPECT_FALSE(compiles(Sum(129)));
  // A chain leans to the left: a level for each operator, and one for leaves.
  EXPECT_TRUE(compiles("1", Repeat("+1", 31)));
  EXPECT_FALSE(compiles("1", Repeat("+1", 32)));
  EXPECT_TRUE(compiles(Repeat("-", 31), "1"));
  EXPECT_FALSE(compiles(Repeat("-", 32), "1"));
  EXPECT_TRUE(compiles(Repeat("(", 31), "1", Repeat(")", 31)));
  EXPECT_FALSE(compiles(Repeat("(", 32), "1", Repeat(")", 32)));
  EXPECT_FALSE(compiles(Repeat("(", 1024)));
  EXPECT_FALSE(compiles(Repeat("-", 1024)));
  EXPECT_FALSE(compiles(Repeat("true?1:", 146)));
  EXPECT_FALSE(compiles(Repeat("abs(", 256)));
}

TEST(ParserTest, RandomTextNeverCrashes) {
  static const char* const kWords[] = {
      "score", "weight", "slope", "segment", "b",  "h",   "q",  "k",  "p",
      "Sq",    "true",   "inf",   "exp(",    "(",  ")",   "[",  "]",  ",",
      "+",     "-",      "*",     "/",       "%",  "<",   ">=", "==", "!=",
      "&&",    "||",     "!",     "?",       ":",  "1",   ".5", "2e", " ",
      "min(",  "clamp(", "\n",    "\xff",    "\0", "1e3", "&",  "."};
  std::mt19937_64 random(7);
  const ProgramCall call = CallWithTables();
  int compiled = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string source;
    const uint64_t length = random() % 12;
    for (uint64_t i = 0; i < length; ++i) {
      source += random() % 16 == 0
                    ? std::string(1, static_cast<char>(random()))
                    : std::string(kWords[random() % std::size(kWords)]);
    }
    const auto kind = static_cast<ProgramKind>(random() % 3);
    const auto program = call.Compile(kind, source);
    if (!program.ok()) {
      EXPECT_EQ(FieldOf(program.status()), "spec.program.source") << source;
      continue;
    }
    ++compiled;
    Elements<float> tile(call.Head(1, 2), 0.5F);
    if (kind == kMask) {
      (*program)->Exclude(call.view(), tile.tile());
    } else {
      (*program)->Run(call.view(), tile.tile(), tile.tile());
    }
  }
  EXPECT_GT(compiled, 100);
}

}  // namespace
}  // namespace attn
