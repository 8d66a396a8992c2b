#include "client/cli/check/graph_program.h"

#include <string>

#include "client/cli/check/outcome.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// scores + a range over one axis, which `shape` names.
json AddsARange(const json& shape) {
  return {
      {"graph_inputs", {"scores"}},
      {"graph_outputs", {"out"}},
      {"initializers", {{"zero", 0}, {"one", 1}, {"at", 2}, {"shape", shape}}},
      {"graph",
       {{{"op", "Shape"}, {"inputs", {"scores"}}, {"outputs", {"extents"}}},
        {{"op", "Gather"}, {"inputs", {"extents", "at"}}, {"outputs", {"n"}}},
        {{"op", "Range"},
         {"inputs", {"zero", "n", "one"}},
         {"outputs", {"range"}}},
        {{"op", "Reshape"},
         {"inputs", {"range", "shape"}},
         {"outputs", {"index"}}},
        {{"op", "Add"},
         {"inputs", {"scores", "index"}},
         {"outputs", {"out"}}}}}};
}

std::string ValueOf(const json& shape) {
  const auto program = TranslateGraph(AddsARange(shape), "score");
  return program.ok() ? program->value : "";
}

TEST(GraphProgram, ARangeIsTheIndexOfTheAxisThatItsShapeLeavesOpen) {
  EXPECT_EQ(ValueOf({-1, 1}), "(score + q)");
  EXPECT_EQ(ValueOf({1, -1}), "(score + k)");
  EXPECT_EQ(ValueOf({1, 1, -1, 1}), "(score + q)");
  EXPECT_EQ(ValueOf({1, 1, 1, -1}), "(score + k)");
  EXPECT_EQ(ValueOf({-1, 1, 1}), "(score + h)");
  EXPECT_EQ(ValueOf({-1, 1, 1, 1}), "(score + b)");
}

TEST(GraphProgram, ARangeOverNoAxisOrOverTwoIsSkipped) {
  for (const json& shape : {json{2, -1}, json{-1, -1}, json{1, 1}, json{-1, 2},
                            json{-1, 1, 1, 1, 1}}) {
    const auto program = TranslateGraph(AddsARange(shape), "score");
    EXPECT_THAT(SkipReason(program.status()), HasSubstr("a range of shape"))
        << shape.dump();
  }
}

}  // namespace
}  // namespace attn
