#include "client/cli/spec_flags.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// What a command line means.
absl::StatusOr<SpecRequest> Parse(std::vector<std::string> arguments) {
  CLI::App app;
  SpecFlags flags;
  AddSpecFlags(app, flags);
  std::reverse(arguments.begin(), arguments.end());  // As CLI11 wants them.
  app.parse(arguments);
  return ReadSpec(flags, {});
}

TEST(SpecFlagsTest, NoFlagsAreTheDefaults) {
  EXPECT_EQ(Parse({})->spec, AttentionSpec());
}

TEST(SpecFlagsTest, ScalarsGoToTheirStages) {
  const auto request =
      Parse({"--scale", "0", "--softcap", "30", "--temperature", "0.5,2"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(std::get<DotScore>(request->spec.score).scale, 0);
  EXPECT_EQ(request->spec.softcap, 30);
  EXPECT_EQ(request->spec.temperatures, (std::vector<double>{0.5, 2}));
}

TEST(SpecFlagsTest, CausalTakesAnAlignmentOrNone) {
  EXPECT_EQ(Parse({"--causal"})->spec.masks,
            std::vector<MaskSpec>{CausalMask{}});
  EXPECT_EQ(Parse({"--causal=bottom_right"})->spec.masks,
            std::vector<MaskSpec>{CausalMask{Alignment::kBottomRight}});
  EXPECT_EQ(Parse({"--causal", "--softcap", "2"})->spec.masks,
            std::vector<MaskSpec>{CausalMask{}});
  EXPECT_THAT(Parse({"--causal=middle"}).status().ToString(),
              HasSubstr("--causal"));
}

TEST(SpecFlagsTest, WindowsTakeDistancesOrNone) {
  EXPECT_EQ(
      Parse({"--window", "3,none,top_left"})->spec.masks,
      std::vector<MaskSpec>{WindowMask{
          .left = 3, .right = std::nullopt, .alignment = Alignment::kTopLeft}});
  for (const char* bad : {"3", "3,-1", "a,b", "1,2,3", "1,2,top_left,x"}) {
    EXPECT_THAT(Parse({"--window", bad}).status().ToString(),
                HasSubstr("--window"))
        << bad;
  }
}

TEST(SpecFlagsTest, AlibiTakesSlopesOrNone) {
  EXPECT_EQ(Parse({"--alibi"})->spec.biases,
            std::vector<BiasSpec>{AlibiBias{}});
  EXPECT_EQ(Parse({"--alibi=0.5,0.25"})->spec.biases,
            std::vector<BiasSpec>{AlibiBias{{0.5, 0.25}}});
  EXPECT_FALSE(Parse({"--alibi=x"}).ok());
}

TEST(SpecFlagsTest, FilesBecomeInputs) {
  const ScratchFolder folder;
  const std::string bias =
      folder.Write("bias.json", R"({"shape": [2, 2], "data": [0, 1, 2, 3]})");
  const std::string mask = folder.Write(
      "mask.json", R"({"dtype": "BOOL", "shape": [2], "data": [true, false]})");
  const auto request = Parse({"--mask", mask, "--bias", bias});
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->inputs.size(), 2U);
  EXPECT_EQ(request->spec.biases, std::vector<BiasSpec>{DenseBias{0}});
  EXPECT_EQ(request->spec.masks, std::vector<MaskSpec>{DenseMask{1}});
  EXPECT_EQ(request->inputs[1].dtype(), DType::kBool);
}

TEST(SpecFlagsTest, ASpecFileIsProtobufJson) {
  const ScratchFolder folder;
  const std::string spec = folder.Write(
      "spec.json",
      R"({"softcap": 5, "masks": [{"causal": {"alignment": 1}}]})");
  const auto request = Parse({"--spec", spec, "--temperature", "2"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->spec.softcap, 5);
  EXPECT_EQ(request->spec.masks,
            std::vector<MaskSpec>{CausalMask{Alignment::kTopLeft}});
  const std::string bad = folder.Write("bad.json", R"({"softcup": 5})");
  EXPECT_THAT(Parse({"--spec", bad}).status().ToString(), HasSubstr(bad));
}

}  // namespace
}  // namespace attn
