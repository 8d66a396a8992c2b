// The storyteller's parts, by the golden data of the model that is shipped.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/storyteller/model.h"
#include "client/examples/storyteller/sampler.h"
#include "client/examples/storyteller/tokenizer.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/examples/local_attention.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr int64_t kLongest = 256;

std::string FileOf(const std::string& path) {
  std::ifstream stream(std::string(ATTN_SOURCE_DIR) + "/" + path,
                       std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
std::string ModelFile() { return FileOf("server/story/model/tiny.bin"); }
std::string TokenizerFile() { return FileOf("server/story/model/tok512.bin"); }
json Golden() {
  return json::parse(FileOf("tests/server/story/data/golden.json")).at("cases");
}

class StorytellerTest : public ::testing::Test {
 protected:
  StorytellerTest()
      : model_(*LlamaModel::Parse(ModelFile())),
        tokenizer_(*LlamaTokenizer::Parse(TokenizerFile())) {}

  // Reads on from what `attention` has.
  std::vector<float> Read(const std::vector<int32_t>& tokens,
                          LocalAttention& attention) const {
    const auto logits = model_.Read(
        tokens, [&](const LlamaRows& rows) { return attention.Attend(rows); });
    EXPECT_TRUE(logits.ok()) << logits.status();
    return *logits;
  }

  LlamaModel model_;
  LlamaTokenizer tokenizer_;
};

TEST_F(StorytellerTest, TheModelHasTheSizesOfItsReadme) {
  const LlamaSizes& sizes = model_.sizes();
  EXPECT_EQ(sizes.dim, 64);
  EXPECT_EQ(sizes.hidden_dim, 256);
  EXPECT_EQ(sizes.layers, 5);
  EXPECT_EQ(sizes.heads, 8);
  EXPECT_EQ(sizes.kv_heads, 4);
  EXPECT_EQ(sizes.head_dim(), 8);
  EXPECT_EQ(sizes.vocabulary, 512);
  EXPECT_EQ(sizes.longest_text, kLongest);
  EXPECT_EQ(tokenizer_.size(), 512);
}

TEST_F(StorytellerTest, PromptsHaveTheGoldenIdsAndTexts) {
  for (const json& golden : Golden()) {
    auto ids = golden.at("prompt_ids").get<std::vector<int32_t>>();
    EXPECT_EQ(
        *tokenizer_.Encode(golden.at("prompt").get<std::string>(), kLongest),
        ids);
    const auto next = golden.at("continuation_ids").get<std::vector<int32_t>>();
    ids.insert(ids.end(), next.begin(), next.end());
    std::string text;
    for (size_t i = 1; i < ids.size(); ++i) {
      text += tokenizer_.Decode(ids[i - 1], ids[i]);
    }
    EXPECT_EQ(text, golden.at("text").get<std::string>());
  }
}

TEST_F(StorytellerTest, LogitsBehindThePromptAreTheGoldenOnes) {
  for (const json& golden : Golden()) {
    LocalAttention attention(model_.sizes());
    const auto logits =
        Read(golden.at("prompt_ids").get<std::vector<int32_t>>(), attention);
    for (const auto& [id, logit] : golden.at("first_logits").items()) {
      // The file has five decimals.
      EXPECT_NEAR(logits[static_cast<size_t>(std::stoi(id))],
                  logit.get<double>(), 1e-4);
    }
  }
}

TEST_F(StorytellerTest, GreedyContinuationsAreTheGoldenOnes) {
  for (const json& golden : Golden()) {
    LocalAttention attention(model_.sizes());
    TokenSampler greedy(0, 1);
    auto next = golden.at("prompt_ids").get<std::vector<int32_t>>();
    std::vector<int32_t> told;
    while (told.size() < golden.at("continuation_ids").size()) {
      next = {greedy.Next(Read(next, attention))};
      told.push_back(next[0]);
    }
    EXPECT_EQ(told, golden.at("continuation_ids").get<std::vector<int32_t>>());
  }
}

TEST_F(StorytellerTest, APromptInPiecesIsThePromptInOnePiece) {
  const std::vector<int32_t> ids = Golden()[0].at("prompt_ids");
  LocalAttention whole(model_.sizes());
  LocalAttention pieces(model_.sizes());
  const auto expected = Read(ids, whole);
  std::vector<float> logits;
  for (const int32_t id : ids) logits = Read({id}, pieces);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(logits[i], expected[i], 1e-5);
  }
}

TEST_F(StorytellerTest, AnAttentionThatFailsEndsTheReading) {
  int calls = 0;
  const auto failed = model_.Read(
      {{1, 2}},
      [&](const LlamaRows& rows) -> absl::StatusOr<std::vector<float>> {
        if (++calls == 3) return absl::UnavailableError("gone");
        return std::vector<float>(rows.q.size());
      });
  EXPECT_TRUE(absl::IsUnavailable(failed.status()));
  EXPECT_EQ(calls, 3);
  const auto short_one = model_.Read(
      {{1, 2}}, [](const LlamaRows&) { return std::vector<float>(1); });
  EXPECT_TRUE(absl::IsInternal(short_one.status()));
  const auto none = [](const LlamaRows&) { return std::vector<float>(); };
  EXPECT_EQ(FieldOf(model_.Read({}, none).status()), "tokens");
  EXPECT_EQ(FieldOf(model_.Read({{512}}, none).status()), "tokens");
  EXPECT_EQ(FieldOf(model_.Read({{-1}}, none).status()), "tokens");
}

TEST(LlamaModelFile, AClassifierOfItsOwnIsReadIfTheVocabularyIsNegative) {
  std::string file = ModelFile();
  const int32_t negative = -512;
  std::memcpy(file.data() + 5 * sizeof(int32_t), &negative, sizeof(negative));
  EXPECT_EQ(FieldOf(LlamaModel::Parse(file).status()), "model");
  // The embedding, doubled: so is every logit.
  constexpr size_t kHead = 7 * sizeof(int32_t);
  const size_t floats = 512 * 64;
  std::vector<float> classifier(floats);
  std::memcpy(classifier.data(), file.data() + kHead, floats * sizeof(float));
  for (float& weight : classifier) weight *= 2;
  file.append(reinterpret_cast<const char*>(classifier.data()),
              floats * sizeof(float));
  const auto untied = LlamaModel::Parse(file);
  ASSERT_TRUE(untied.ok()) << untied.status();
  const auto tied = LlamaModel::Parse(ModelFile());
  LocalAttention one(tied->sizes());
  LocalAttention other(tied->sizes());
  const std::vector<int32_t> begin = {1};
  const auto expected = tied->Read(
      begin, [&](const LlamaRows& rows) { return one.Attend(rows); });
  const auto doubled = untied->Read(
      begin, [&](const LlamaRows& rows) { return other.Attend(rows); });
  for (size_t i = 0; i < expected->size(); ++i) {
    EXPECT_EQ((*doubled)[i], 2 * (*expected)[i]);
  }
}

TEST(LlamaModelFile, WhatIsWrongIsNamed) {
  const std::string file = ModelFile();
  EXPECT_EQ(FieldOf(LlamaModel::Parse("").status()), "model");
  EXPECT_EQ(FieldOf(LlamaModel::Parse(file.substr(1)).status()), "model.dim");
  EXPECT_EQ(
      FieldOf(LlamaModel::Parse(file.substr(0, file.size() - 1)).status()),
      "model");
  EXPECT_EQ(FieldOf(LlamaModel::Parse(file + " ").status()), "model");
  const std::pair<int, const char*> sizes[] = {
      {0, "model.dim"},     {1, "model.hidden_dim"}, {2, "model.n_layers"},
      {3, "model.n_heads"}, {4, "model.n_kv_heads"}, {5, "model.vocab_size"},
      {6, "model.seq_len"},
  };
  for (const auto& [index, name] : sizes) {
    std::string bad = file;
    std::memset(bad.data() + index * 4, 0, 4);
    EXPECT_EQ(FieldOf(LlamaModel::Parse(bad).status()), name);
  }
  // 64 numbers do not part into 9 heads, nor 8 heads into threes.
  std::string bad = file;
  bad[3 * 4] = 9;
  EXPECT_EQ(FieldOf(LlamaModel::Parse(bad).status()), "model.n_heads");
  bad = file;
  bad[4 * 4] = 3;
  EXPECT_EQ(FieldOf(LlamaModel::Parse(bad).status()), "model.n_kv_heads");
}

TEST_F(StorytellerTest, TextsThatHaveNoPiecesAreSpeltInBytes) {
  const std::string texts[] = {"tiny \xE4\xBD\xA0 \xF0\x9F\x90\xBB", "\xFF\xC3",
                               "two\nlines <s> and\ttabs", " "};
  for (const std::string& text : texts) {
    const auto ids = tokenizer_.Encode(text, kLongest);
    ASSERT_TRUE(ids.ok()) << ids.status();
    std::string decoded;
    for (size_t i = 1; i < ids->size(); ++i) {
      EXPECT_GT((*ids)[i], 2);
      decoded += tokenizer_.Decode((*ids)[i - 1], (*ids)[i]);
    }
    EXPECT_EQ(decoded, text);
  }
}

TEST_F(StorytellerTest, NoTextIsItsBeginAloneAndALongOneIsRefused) {
  EXPECT_THAT(*tokenizer_.Encode("", 1), ElementsAre(LlamaTokenizer::kBegin));
  EXPECT_EQ(FieldOf(tokenizer_.Encode("a", 1).status()), "prompt");
  EXPECT_EQ(
      FieldOf(
          tokenizer_.Encode(std::string(10'000'000, 'a'), kLongest).status()),
      "prompt");
}

TEST(LlamaTokenizerFile, WhatIsWrongIsNamed) {
  const std::string file = TokenizerFile();
  EXPECT_EQ(FieldOf(LlamaTokenizer::Parse("").status()), "tokenizer");
  EXPECT_EQ(
      FieldOf(LlamaTokenizer::Parse(file.substr(0, file.size() - 1)).status()),
      "tokenizer.pieces[511]");
  // The bytes' names alone are no tokenizer.
  EXPECT_EQ(FieldOf(LlamaTokenizer::Parse(file.substr(0, 100)).status())
                .value_or("")
                .substr(0, 9),
            "tokenizer");
}

TEST(TokenSampler, AtTemperatureZeroTakesTheFirstOfTheLargest) {
  TokenSampler greedy(0, 1);
  EXPECT_EQ(greedy.Next({0, 3, 1, 3}), 1);
}

TEST(TokenSampler, DrawsByTheSoftmaxOfTheLogits) {
  constexpr int kDraws = 20000;
  const std::vector<float> logits = {1, 0, -100, 2};
  constexpr double kTemperature = 0.8;
  TokenSampler sampler(kTemperature, 5);
  TokenSampler same(kTemperature, 5);
  std::vector<int> drawn(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    const int32_t token = sampler.Next(logits);
    ASSERT_EQ(same.Next(logits), token);
    ++drawn[static_cast<size_t>(token)];
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit / kTemperature);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp(logits[i] / kTemperature) / sum;
    // Five standard deviations of a share.
    EXPECT_NEAR(static_cast<double>(drawn[i]) / kDraws, p,
                5 * std::sqrt(p * (1 - p) / kDraws) + 1e-9);
  }
}

}  // namespace
}  // namespace attn
