#include "server/inference/infer_model.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(
    const google::protobuf::RepeatedPtrField<
        inference::ModelMetadataResponse::TensorMetadata>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name());
  return names;
}

TEST(InferModel, EveryMemberOfTheEnginesTablesIsAModel) {
  size_t members = 0;
  for (const StageInfo& stage : ListStages()) {
    for (const MemberInfo& member : stage.members) {
      ++members;
      const std::string name = absl::StrCat(stage.stage, "_", member.name);
      const auto model = FindInferModel(name, "1");
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->name, name);
    }
  }
  EXPECT_EQ(InferModels().size(), members + 1);
  EXPECT_TRUE(FindInferModel("attention", "").ok());
  std::set<std::string> names;
  for (const InferModel& model : InferModels()) names.insert(model.name);
  EXPECT_EQ(names.size(), InferModels().size());
}

// The names of a member's inputs must not meet each other, nor q, k and v, nor
// its numbers.
TEST(InferModel, TheInputsOfAModelHaveNamesOfTheirOwn) {
  size_t tensors = 0;
  for (const InferModel& model : InferModels()) {
    std::set<std::string> names = {"q", "k", "v", "qkv"};
    for (const MemberTensor& tensor : model.tensors) {
      EXPECT_TRUE(names.insert(tensor.input).second)
          << model.name << " " << tensor.input;
      ++tensors;
    }
  }
  EXPECT_GT(tensors, 30U);
}

TEST(InferModel, AMemberIsPutWhereItBelongs) {
  v1::AttentionSpec spec;
  spec.add_masks()->mutable_causal();
  std::string path;
  auto* member = (*FindInferModel("mask_window", ""))->AddMember(spec, &path);
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(path, "spec.masks[1].window");
  EXPECT_EQ(member, spec.mutable_masks(1)->mutable_window());
  const InferModel& score = **FindInferModel("score_cosine", "");
  member = score.AddMember(spec, &path);
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member, spec.mutable_score()->mutable_cosine());
  EXPECT_EQ(path, "spec.score.cosine");
  EXPECT_EQ(score.AddMember(spec, &path), nullptr);
}

TEST(InferModel, MetadataHasWhatACallNeedsAndMayAskFor) {
  const auto plain = DescribeModel(**FindInferModel("attention", ""));
  EXPECT_EQ(plain.name(), "attention");
  EXPECT_THAT(plain.versions(), ElementsAre("1"));
  EXPECT_THAT(NamesOf(plain.inputs()), ElementsAre("q", "k", "v"));
  EXPECT_THAT(NamesOf(plain.outputs()),
              ElementsAre("output", "lse", "logits", "masked_logits", "weights",
                          "lse_with_sink", "head_output"));
  EXPECT_THAT(plain.inputs(0).shape(), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(plain.outputs(1).shape(), ElementsAre(-1, -1, -1));

  const auto dense = DescribeModel(**FindInferModel("mask_dense", ""));
  EXPECT_THAT(NamesOf(dense.inputs()), ElementsAre("q", "k", "v", "mask"));
  EXPECT_EQ(dense.inputs(3).datatype(), "BOOL");
  const auto concat = DescribeModel(**FindInferModel("score_concat", ""));
  EXPECT_THAT(NamesOf(concat.inputs()),
              ElementsAre("q", "k", "v", "weight", "concat.v"));
  const auto linear = DescribeModel(**FindInferModel("normalizer_linear", ""));
  EXPECT_THAT(NamesOf(linear.outputs()),
              ElementsAre("output", "state", "head_output"));
}

// By the formulas of the schema: what each member cannot be computed without.
TEST(InferModel, ModelsNeedTheTensorsOfTheirFormulas) {
  const std::map<std::string, std::vector<std::string>> needed = {
      {"score_bilinear", {"weight"}},
      {"score_additive", {"additive.v"}},
      {"score_concat", {"weight", "concat.v"}},
      {"score_trilinear", {"weight"}},
      {"bias_dense", {"bias"}},
      {"bias_relative_table", {"table"}},
      {"bias_t5", {"table"}},
      {"bias_continuous_position",
       {"hidden_weight", "hidden_bias", "output_weight"}},
      {"bias_constant", {"values"}},
      {"mask_dense", {"mask"}},
      {"mask_segment", {"q_segments", "kv_segments"}},
      {"mask_block_sparse", {"layout"}},
      {"normalizer_local", {"weight", "local.v"}},
  };
  for (const InferModel& model : InferModels()) {
    std::vector<std::string> want = {"q", "k", "v"};
    const auto row = needed.find(model.name);
    if (row != needed.end()) {
      want.insert(want.end(), row->second.begin(), row->second.end());
    }
    EXPECT_EQ(NamesOf(DescribeModel(model).inputs()), want) << model.name;
  }
}

TEST(InferModel, OutputsAreThoseOfAttend) {
  for (int value = v1::OUTPUT_OUTPUT; value <= v1::Output_MAX; ++value) {
    const auto output = static_cast<v1::Output>(value);
    // Messages, not tensors.
    if (output == v1::OUTPUT_ROW_STATISTICS ||
        output == v1::OUTPUT_HEAD_STATISTICS) {
      continue;
    }
    bool found = false;
    const auto& type = *v1::AttendResponse::descriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const auto* field = FindInferOutput(type.field(i)->name());
      found = found || (field != nullptr && OutputOfField(*field) == output);
    }
    EXPECT_TRUE(found) << v1::Output_Name(output);
  }
  EXPECT_EQ(FindInferOutput("report"), nullptr);
  EXPECT_THAT(ListInferOutputs(), HasSubstr("output, lse, logits"));
}

}  // namespace
}  // namespace attn
