#include "server/inference/field_names.h"

#include <string>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "server/inference/quoted.h"

namespace attn {
namespace {

class FieldNamesTest : public ::testing::Test {
 protected:
  FieldNamesTest() {
    names_.Add("spec.masks[1].window", "parameters");
    names_.Add("spec.masks[1].window.left", "parameters.window_left");
    names_.Add("q.dtype", "q.datatype");
    names_.AddInput("inputs[0]");
    names_.AddInput("table");
  }

  std::string Renamed(const std::string& field) const {
    return *FieldOf(names_.Rename(FieldError(field, "a", "b")));
  }

  FieldNames names_;
};

TEST_F(FieldNamesTest, TheLongestNameThatFitsCounts) {
  EXPECT_EQ(Renamed("spec.masks[1].window.left"), "parameters.window_left");
  EXPECT_EQ(Renamed("spec.masks[1].window.right"), "parameters.right");
  EXPECT_EQ(Renamed("spec.masks[1].window"), "parameters");
  EXPECT_EQ(Renamed("spec.masks[10].window"), "spec.masks[10].window");
  EXPECT_EQ(Renamed("spec.masks[1].windows"), "spec.masks[1].windows");
  EXPECT_EQ(Renamed("q.dtype"), "q.datatype");
  EXPECT_EQ(Renamed("q.shape"), "q.shape");
}

TEST_F(FieldNamesTest, InputsAreNamedInWhatIsSaidToo) {
  EXPECT_EQ(Renamed("inputs[1].shape"), "table.shape");
  const absl::Status status = names_.Rename(
      FieldError("x", "inputs[1] of shape [2]", "that of inputs[0]"));
  EXPECT_EQ(status.message(),
            "x: got table of shape [2], expected that of inputs[0]");
}

TEST_F(FieldNamesTest, WhatNamesNoFieldStaysAsItIs) {
  const absl::Status status = absl::InternalError("inputs[1]");
  EXPECT_EQ(names_.Rename(status), status);
  EXPECT_TRUE(names_.Rename(absl::OkStatus()).ok());
}

TEST(Quoted, NamesArePrintableAndShort) {
  EXPECT_EQ(Quoted("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(Quoted("\xC3\xA4"), "\"\xC3\xA4\"");
  const std::string cut = FieldPart("a" + std::string(100, '\xC3') + "\xA4");
  EXPECT_LT(cut.size(), 300U);
  std::string letters = "a";
  for (int i = 0; i < 100; ++i) letters += "\xC3\xA4";
  // Between two characters.
  EXPECT_EQ(FieldPart(letters), letters.substr(0, 63) + "...");
}

}  // namespace
}  // namespace attn
