#include "client/cli/spec_flags.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "CLI/CLI.hpp"
#include "engine/engine.h"
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

// The members of a stage, as the server lists them.
std::vector<std::string> MembersOf(const std::string& stage) {
  std::vector<std::string> names;
  for (const StageInfo& info : ListStages()) {
    if (info.stage != stage) continue;
    for (const MemberInfo& member : info.members) names.push_back(member.name);
  }
  return names;
}

TEST(SpecFlagsTest, EveryScoreAndNormalizerHasItsNameOrIsSaidToNeedASpec) {
  CLI::App app;
  SpecFlags flags;
  AddSpecFlags(app, flags);
  const struct {
    const char* flag;
    const char* stage;
    std::vector<std::string> by_spec;
  } rows[] = {
      {"--score", "score", {"bilinear", "additive", "concat", "trilinear"}},
      {"--normalizer", "normalizer", {"local"}}};
  for (const auto& row : rows) {
    const std::string help = app.get_option(row.flag)->get_description();
    const std::vector<std::string> members = MembersOf(row.stage);
    ASSERT_GT(members.size(), row.by_spec.size());
    for (size_t i = 0; i < members.size(); ++i) {
      const std::string& name = members[i];
      EXPECT_THAT(help, HasSubstr(name));
      const auto request = Parse({row.flag, name});
      if (std::count(row.by_spec.begin(), row.by_spec.end(), name) > 0) {
        EXPECT_THAT(request.status().ToString(), HasSubstr("--spec")) << name;
        continue;
      }
      ASSERT_TRUE(request.ok()) << request.status();
      const bool score = std::string(row.stage) == "score";
      EXPECT_EQ(score ? request->spec.score.index()
                      : request->spec.normalizer.index(),
                i)
          << name;
    }
  }
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
  const std::vector<MaskSpec> want = {WindowMask{
      .left = 3, .right = std::nullopt, .alignment = Alignment::kTopLeft}};
  EXPECT_EQ(Parse({"--window", "3,none,top_left"})->spec.masks, want);
  for (const char* bad : {"3", "3,-1", "a,b", "1,2,3", "1,2,top_left,x"}) {
    EXPECT_THAT(Parse({"--window", bad}).status().ToString(),
                HasSubstr("--window"))
        << bad;
  }
}

TEST(SpecFlagsTest, AlibiTakesSlopesOrNone) {
  EXPECT_EQ(Parse({"--alibi"})->spec.biases,
            std::vector<BiasSpec>{AlibiBias{}});
  const std::vector<BiasSpec> want = {AlibiBias{.slopes = {0.5, 0.25}}};
  EXPECT_EQ(Parse({"--alibi=0.5,0.25"})->spec.biases, want);
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

TEST(SpecFlagsTest, StagesGoByName) {
  EXPECT_EQ(Parse({"--score", "cosine"})->spec.score, ScoreSpec(CosineScore{}));
  DistanceScore l1;
  l1.distance = Distance::kL1;
  EXPECT_EQ(Parse({"--score", "l1"})->spec.score, ScoreSpec(l1));
  RotaryTransform rotary;
  rotary.layout = RotaryLayout::kHalfSplit;
  rotary.base = 500;
  EXPECT_EQ(Parse({"--rope", "half_split:500"})->spec.transforms,
            std::vector<TransformSpec>{rotary});
  const auto sparse = Parse({"--top-k", "5", "--top-p", "0.9"});
  ASSERT_TRUE(sparse.ok()) << sparse.status();
  EXPECT_EQ(
      sparse->spec.sparsifiers,
      (std::vector<SparsifierSpec>{TopKSparsifier{5}, TopPSparsifier{0.9}}));
  const auto dropout =
      Parse({"--seed", "18446744073709551615", "--dropout", "0.25"});
  ASSERT_TRUE(dropout.ok()) << dropout.status();
  EXPECT_EQ(dropout->spec.dropout->p, 0.25);
  EXPECT_EQ(dropout->spec.dropout->seed, ~uint64_t{0});
}

TEST(SpecFlagsTest, TheScaleIsThatOfTheScoreAskedFor) {
  DistanceScore l2;
  l2.distance = Distance::kL2;
  l2.scale = 0.5;
  EXPECT_EQ(Parse({"--scale", "0.5", "--score", "l2"})->spec.score,
            ScoreSpec(l2));
}

TEST(SpecFlagsTest, NormalizersMayTakeANumber) {
  EXPECT_EQ(Parse({"--normalizer", "sparsemax"})->spec.normalizer,
            NormalizerSpec(SparsemaxNormalizer{}));
  EntmaxNormalizer entmax;
  EXPECT_EQ(Parse({"--normalizer", "entmax"})->spec.normalizer,
            NormalizerSpec(entmax));
  entmax.alpha = 1.5;
  EXPECT_EQ(Parse({"--normalizer", "entmax:1.5"})->spec.normalizer,
            NormalizerSpec(entmax));
  SigmoidNormalizer sigmoid;
  sigmoid.bias = -2;
  EXPECT_EQ(Parse({"--normalizer", "sigmoid:-2"})->spec.normalizer,
            NormalizerSpec(sigmoid));
}

TEST(SpecFlagsTest, ProgramsFindTheirTables) {
  const ScratchFolder folder;
  const std::string slopes =
      folder.Write("slopes.json", R"({"shape": [2], "data": [0.5, 1]})");
  const auto request =
      Parse({"--score-program", "score + table[h] * (k - q)", "--mask-program",
             "k <= q", "--program-table", "table=" + slopes, "--weight-program",
             "weight / 2", "--sinks", slopes});
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->inputs.size(), 2U);
  EXPECT_EQ(std::get<SoftmaxNormalizer>(request->spec.normalizer).sink, 0U);
  const std::vector<ProgramTable> tables = {{"table", 1}};
  EXPECT_EQ(request->spec.score_program,
            (ProgramSpec{"score + table[h] * (k - q)", tables}));
  const std::vector<MaskSpec> masks = {
      ProgramMask{ProgramSpec{"k <= q", tables}}};
  EXPECT_EQ(request->spec.masks, masks);
  EXPECT_EQ(request->spec.weight_program, (ProgramSpec{"weight / 2", tables}));
}

TEST(SpecFlagsTest, OffsetsMakeACallRagged) {
  const auto request = Parse({"--q-offsets", "0,1,3", "--kv-offsets", "0,2,2"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->q_offsets, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(request->kv_offsets, (std::vector<int64_t>{0, 2, 2}));
}

TEST(SpecFlagsTest, WhatIsNotUnderstoodNamesItsFlag) {
  const std::vector<std::vector<std::string>> mistakes = {
      {"--score", "dott"},        {"--rope", "sideways"},
      {"--rope", "half_split:x"}, {"--qk-norm", "l3"},
      {"--top-k", "x"},           {"--top-p", "x"},
      {"--normalizer", "soft"},   {"--normalizer", "hard:1"},
      {"--dropout", "x"},         {"--seed", "1"},
      {"--program-table", "x"}};
  for (const std::vector<std::string>& mistake : mistakes) {
    EXPECT_THAT(Parse(mistake).status().ToString(), HasSubstr(mistake[0]))
        << mistake[1];
  }
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
