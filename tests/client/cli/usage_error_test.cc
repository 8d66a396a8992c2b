#include "client/cli/usage_error.h"

#include <string>
#include <vector>

#include "client/cli/choices.h"
#include "client/cli/help_formatter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A program of two commands, one with commands of its own.
class UsageErrorTest : public ::testing::Test {
 protected:
  UsageErrorTest() : app_("A program") {
    app_.name("prog");
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.fallthrough();
    app_.require_subcommand(1);
    app_.add_option("--address", address_, "Server")->type_name("ADDRESS");
    CLI::App* draw = app_.add_subcommand("draw", "Draw it");
    draw->add_option("--scale", scale_, "Scale")->capture_default_str();
    draw->add_option("--size", sizes_, "Sizes")->delimiter(',');
    draw->add_option("--colour", colour_, "Colour")
        ->transform(OneOf({"red", "green"}));
    draw->add_option("--causal", causal_, "Mask")
        ->expected(0, 1)
        ->type_name("top_left|bottom_right");
    draw->add_option("file", file_, "File")->type_name(kFileType)->required();
    CLI::App* layer = app_.add_subcommand("layer", "Layers");
    layer->fallthrough();
    layer->require_subcommand(1);
    layer->add_subcommand("put", "Put it");
    layer->add_subcommand("delete", "Delete it");
  }

  // What is wrong with the line; "" if nothing is.
  std::string ErrorOf(const std::string& line) {
    try {
      app_.parse(line);
      return "";
    } catch (const CLI::ParseError& error) {
      return DescribeUsageError(app_, error);
    }
  }

  CLI::App app_;
  std::string address_;
  double scale_ = 1;
  std::vector<int> sizes_;
  std::string colour_;
  std::vector<std::string> causal_;
  std::string file_;
};

TEST_F(UsageErrorTest, AMisspeltOptionIsToldItsNeighbour) {
  EXPECT_EQ(ErrorOf("draw x --scael 2"),
            "draw: unknown option --scael; did you mean --scale?");
  EXPECT_EQ(ErrorOf("draw x --adress=y"),
            "draw: unknown option --adress; did you mean --address?");
  EXPECT_EQ(ErrorOf("draw x --nothing-like-it"),
            "draw: unknown option --nothing-like-it; prog draw --help "
            "lists them");
}

TEST_F(UsageErrorTest, AMisspeltCommandIsToldItsNeighbour) {
  EXPECT_EQ(ErrorOf("darw"), "unknown command \"darw\"; did you mean draw?");
  EXPECT_EQ(ErrorOf("layer putt"),
            "layer: unknown command \"putt\"; did you mean put?");
}

TEST_F(UsageErrorTest, WithoutACommandTheyAreListed) {
  EXPECT_EQ(ErrorOf(""),
            "no command, expected draw or layer; prog --help says what "
            "they do");
  EXPECT_THAT(ErrorOf("layer"), HasSubstr("expected put or delete"));
}

TEST_F(UsageErrorTest, AValueIsToldWhatItShouldBe) {
  EXPECT_EQ(ErrorOf("draw x --scale big"),
            "--scale: got \"big\", expected a number");
  EXPECT_THAT(ErrorOf("draw x --size 1,b"),
              HasSubstr("expected whole numbers with commas between them"));
  EXPECT_EQ(ErrorOf("draw x --colour gren"),
            "--colour: got \"gren\", expected red or green; did you mean "
            "green?");
  EXPECT_EQ(ErrorOf("draw x --scale"),
            "--scale: got nothing, expected a number");
  EXPECT_EQ(ErrorOf("draw x --scale 1 --scale 2"),
            "--scale: given more than once");
}

TEST_F(UsageErrorTest, WhatIsTooMuchOrMissingIsSaid) {
  EXPECT_THAT(ErrorOf("draw x y"),
              HasSubstr("draw: unexpected argument \"y\""));
  EXPECT_THAT(ErrorOf("draw"), AllOf(HasSubstr("draw: file is required"),
                                     HasSubstr("prog draw --help")));
}

TEST_F(UsageErrorTest, AChoiceIsTakenInAnyCase) {
  EXPECT_EQ(ErrorOf("draw x --colour GREEN"), "");
  EXPECT_EQ(colour_, "green");
}

TEST_F(UsageErrorTest, ChoicesComeFromTheOption) {
  const CLI::App* draw = app_.get_subcommand("draw");
  EXPECT_THAT(ChoicesOf(*draw->get_option("--colour")),
              ElementsAre("red", "green"));
  EXPECT_THAT(ChoicesOf(*draw->get_option("--causal")),
              ElementsAre("top_left", "bottom_right"));
  EXPECT_THAT(ChoicesOf(*draw->get_option("--scale")), IsEmpty());
  EXPECT_TRUE(TakesFile(*draw->get_option("file")));
  EXPECT_FALSE(TakesFile(*draw->get_option("--scale")));
  EXPECT_TRUE(MayStandAlone(*draw->get_option("--causal")));
  EXPECT_FALSE(MayStandAlone(*draw->get_option("--colour")));
}

TEST_F(UsageErrorTest, HelpSaysValuesDefaultsAndTheOptionsOfAll) {
  const std::string help = app_.get_subcommand("draw")->help("prog draw");
  EXPECT_THAT(help, HasSubstr("--colour red|green"));
  EXPECT_THAT(help, HasSubstr("--causal[=top_left|bottom_right]"));
  EXPECT_THAT(help, HasSubstr("Scale [default 1]"));
  EXPECT_THAT(help, HasSubstr("Options of every command (prog --help): "
                              "--address"));
  EXPECT_THAT(help, Not(HasSubstr("\n\n\n")));
}

TEST(HelpFormatterTest, WordsAreWrappedAndNeverCut) {
  EXPECT_EQ(WrapText("aa bb cc", 0, 5), "aa bb\ncc");
  EXPECT_EQ(WrapText("aa bbbbbbbbb", 2, 6), "aa\n  bbbbbbbbb");
  EXPECT_EQ(WrapText("", 3, 9), "");
  // Columns are counted, not bytes.
  EXPECT_EQ(WrapText("éé üü", 0, 5), "éé üü");
}

}  // namespace
}  // namespace attn
