#include "server/story/story_model.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/story/embedded_model.h"
#include "tests/server/story/plain_attention.h"

namespace attn {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string DataFile(const std::string& name) {
  std::ifstream stream(
      std::string(ATTN_SOURCE_DIR) + "/tests/server/story/data/" + name,
      std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

json GoldenCases() { return json::parse(DataFile("golden.json")).at("cases"); }

class StoryModelTest : public ::testing::Test {
 protected:
  StoryModelTest() : model_(*StoryModel::Parse(StoryWeightsFile())) {}

  StoryReading Read(const std::vector<int32_t>& ids) const {
    auto reading = model_.Read(ids, [this](const StoryQkv& qkv) {
      return AttendPlainly(qkv, model_.shape());
    });
    EXPECT_TRUE(reading.ok()) << reading.status();
    return *std::move(reading);
  }

  // The largest logit behind token `position`.
  int32_t Next(const std::vector<float>& logits, size_t position) const {
    const auto row = logits.begin() +
                     static_cast<int64_t>(position) * model_.shape().vocabulary;
    return static_cast<int32_t>(
        std::max_element(row, row + model_.shape().vocabulary) - row);
  }

  StoryModel model_;
};

TEST_F(StoryModelTest, TheShippedModelHasTheSizesOfItsReadme) {
  const StoryShape& shape = model_.shape();
  EXPECT_EQ(shape.width, 64);
  EXPECT_EQ(shape.feed_forward, 256);
  EXPECT_EQ(shape.layers, 5);
  EXPECT_EQ(shape.heads, 8);
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.head_dim(), 8);
  EXPECT_EQ(shape.vocabulary, 512);
  EXPECT_EQ(shape.longest_text, 256);
}

// Greedy decoding: each token of the continuation is the likeliest behind those
// before it. No token sees a later one (see below), so that one reading of the
// whole text has all of these choices.
TEST_F(StoryModelTest, GreedyContinuationsAreThoseOfTheGoldenFile) {
  const json cases = GoldenCases();
  ASSERT_THAT(cases, SizeIs(2));
  for (const json& golden : cases) {
    auto ids = golden.at("prompt_ids").get<std::vector<int32_t>>();
    const auto next = golden.at("continuation_ids").get<std::vector<int32_t>>();
    ASSERT_THAT(next, SizeIs(128));
    const size_t prompt = ids.size();
    ids.insert(ids.end(), next.begin(), next.end());
    const std::vector<float> logits = model_.Logits(Read(ids));
    for (size_t i = 0; i < next.size(); ++i) {
      EXPECT_EQ(Next(logits, prompt - 1 + i), next[i]) << "token " << i;
    }
  }
}

TEST_F(StoryModelTest, TokenByTokenItWritesTheSameBeginning) {
  const json golden = GoldenCases()[0];
  auto ids = golden.at("prompt_ids").get<std::vector<int32_t>>();
  for (size_t i = 0; i < 8; ++i) {
    const int32_t next = Next(model_.Logits(Read(ids)), ids.size() - 1);
    EXPECT_EQ(next, golden.at("continuation_ids")[i].get<int32_t>());
    ids.push_back(next);
  }
}

TEST_F(StoryModelTest, TheLogitsBehindThePromptsAreThoseOfTheGoldenFile) {
  int compared = 0;
  for (const json& golden : GoldenCases()) {
    const auto ids = golden.at("prompt_ids").get<std::vector<int32_t>>();
    const std::vector<float> logits = model_.Logits(Read(ids));
    const size_t row =
        (ids.size() - 1) * static_cast<size_t>(model_.shape().vocabulary);
    for (const auto& [id, logit] : golden.at("first_logits").items()) {
      EXPECT_NEAR(logits[row + std::stoul(id)], logit.get<double>(), 1e-4)
          << id;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 10);
}

// The arrays of deploy/example: layer 1's q and k, rotated, and v.
TEST_F(StoryModelTest, TheHeadsOfTheExampleAreThoseOfItsFile) {
  // "Heidi looked at Peter, and Peter looked at Heidi."
  const std::vector<int32_t> ids = {1,   430, 303, 458, 289, 332, 407, 369,
                                    429, 328, 273, 470, 275, 429, 328, 273,
                                    289, 332, 407, 369, 430, 303, 458, 473};
  const std::string file = DataFile("example_qkv.f32");
  std::vector<float> expected(file.size() / sizeof(float));
  std::memcpy(expected.data(), file.data(), expected.size() * sizeof(float));
  const StoryReading reading = Read(ids);
  const StoryQkv& layer = reading.layers.at(1);
  std::vector<double> actual = RotatedPlainly(layer.q, layer.tokens, 8);
  const std::vector<double> k = RotatedPlainly(layer.k, layer.tokens, 8);
  actual.insert(actual.end(), k.begin(), k.end());
  actual.insert(actual.end(), layer.v.begin(), layer.v.end());
  ASSERT_EQ(expected.size(), 3072u);  // (8 + 4 + 4) heads of 24 x 8
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], double{expected[i]}, 1e-5) << i;
  }
}

TEST_F(StoryModelTest, EachLayerIsAttendedOnceAndInOrder) {
  std::vector<int64_t> layers;
  const std::vector<int32_t> ids = {1, 430, 303};
  const auto reading = model_.Read(ids, [&](const StoryQkv& qkv) {
    EXPECT_EQ(qkv.tokens, 3);
    EXPECT_THAT(qkv.q, SizeIs(8 * 3 * 8));
    EXPECT_THAT(qkv.k, SizeIs(4 * 3 * 8));
    EXPECT_THAT(qkv.v, SizeIs(4 * 3 * 8));
    layers.push_back(qkv.layer);
    return AttendPlainly(qkv, model_.shape());
  });
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_THAT(layers, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(reading->layers, SizeIs(5));
  EXPECT_THAT(reading->hidden, SizeIs(3 * 64));
}

TEST_F(StoryModelTest, NoTokenSeesALaterOne) {
  const std::vector<float> shorter = Read({1, 430, 303, 458}).hidden;
  std::vector<float> longer = Read({1, 430, 303, 458, 289, 332}).hidden;
  longer.resize(shorter.size());
  EXPECT_EQ(shorter, longer);
}

TEST_F(StoryModelTest, TheAttentionsOutputIsWhatGoesOn) {
  const std::vector<int32_t> ids = {1, 430};
  const auto nothing = model_.Read(ids, [](const StoryQkv& qkv) {
    return std::vector<float>(qkv.q.size());
  });
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  const StoryReading reading = Read(ids);
  EXPECT_EQ(nothing->layers[0].q, reading.layers[0].q);
  EXPECT_NE(nothing->layers[1].q, reading.layers[1].q);
}

TEST_F(StoryModelTest, AFailedAttentionEndsTheReading) {
  int calls = 0;
  const std::vector<int32_t> ids = {1};
  const auto reading = model_.Read(
      ids, [&](const StoryQkv&) -> absl::StatusOr<std::vector<float>> {
        ++calls;
        return absl::CancelledError("the client went away");
      });
  EXPECT_EQ(reading.status(), absl::CancelledError("the client went away"));
  EXPECT_EQ(calls, 1);
}

TEST_F(StoryModelTest, AnOutputOfAnotherShapeIsRefused) {
  const std::vector<int32_t> ids = {1};
  const auto reading = model_.Read(
      ids, [](const StoryQkv& qkv) { return std::vector<float>(qkv.k); });
  EXPECT_EQ(reading.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(reading.status().message(),
              HasSubstr("layer 0's attention: got 32 elements, expected 64"));
}

TEST_F(StoryModelTest, IdsThatThereAreNotAreRefused) {
  const auto status = [this](const std::vector<int32_t>& ids) {
    return model_
        .Read(ids,
              [this](const StoryQkv& qkv) {
                return AttendPlainly(qkv, model_.shape());
              })
        .status();
  };
  EXPECT_EQ(FieldOf(status({})), "ids");
  EXPECT_EQ(FieldOf(status({1, -1})), "ids[1]");
  EXPECT_EQ(FieldOf(status({1, 2, 512})), "ids[2]");
  EXPECT_EQ(FieldOf(status(std::vector<int32_t>(257, 1))), "ids");
  EXPECT_TRUE(status({0, 511}).ok());
  EXPECT_TRUE(status(std::vector<int32_t>(256, 1)).ok());
}

}  // namespace
}  // namespace attn
