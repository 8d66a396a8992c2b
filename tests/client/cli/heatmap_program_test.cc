// `attn heatmap` as a user runs it, against a server in this process.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/draw/colour_map.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"
#include "tests/client/draw/decoded_png.h"
#include "tests/client/draw/xml_reader.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HeatmapProgramTest : public ::testing::Test {
 protected:
  HeatmapProgramTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~HeatmapProgramTest() override { server_->Hurry(); }

  ProgramResult Heatmap(std::vector<std::string> arguments) const {
    arguments.insert(
        arguments.begin(),
        {ATTN_PROGRAM, "--address", server_->grpc_addresses()[0], "heatmap"});
    return RunProgram(arguments);
  }

  // q = 0, so that each row's weights are equal: 1, 1/2, 1/3 ... if causal.
  std::string Uniform(int64_t heads, int64_t length) const {
    TensorMap tensors;
    for (const char* name : {"q", "k", "v"}) {
      tensors.emplace(name, HostTensor(DType::kF32, {1, heads, length, 2}));
    }
    return Save(tensors);
  }
  // Its logits are its keys: the first element of k, as q = (1, 0), scale 1.
  std::string Counting(const std::vector<double>& keys) const {
    const auto length = static_cast<int64_t>(keys.size());
    TensorMap tensors;
    for (const char* name : {"q", "k", "v"}) {
      tensors.emplace(name, HostTensor(DType::kF32, {1, 1, length, 2}));
    }
    for (int64_t i = 0; i < length; ++i) {
      tensors.at("q").Set(2 * i, 1);
      tensors.at("k").Set(2 * i, keys[static_cast<size_t>(i)]);
    }
    return Save(tensors);
  }
  std::string Save(const TensorMap& tensors) const {
    std::string path = folder_.File("in.npz");
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  // What is written to standard output with --json.
  nlohmann::json Document(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ProgramResult result = Heatmap(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  ScratchFolder folder_;
  LineLog log_;
  std::unique_ptr<Server> server_;
};

// Cells are many pixels; letters have a few of any grey at their edges.
bool Shows(const DecodedPng& image, Rgb colour) {
  constexpr int kFew = 100;
  int pixels = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) pixels += image.At(x, y) == colour;
  }
  return pixels > kFew;
}

XmlDocument ReadSvg(const std::string& path) {
  std::ifstream file(path);
  return ReadXml({std::istreambuf_iterator<char>(file), {}});
}

std::string TextsOf(const XmlDocument& document, const std::string& element) {
  std::string texts;
  for (const XmlElement& found : document.Named(element)) {
    texts += found.text + "\n";
  }
  return texts;
}

TEST_F(HeatmapProgramTest, WritesAPngAndSaysWhatIsInIt) {
  const std::string out = folder_.File("a.png");
  const auto document = Document(
      {"--input", Uniform(2, 3), "--causal", "--output", out, "--heads", "1"});
  const DecodedPng image = DecodePngFile(out);
  EXPECT_EQ(document["file"], out);
  EXPECT_EQ(document["format"], "png");
  EXPECT_EQ(document["width"], image.width);
  EXPECT_EQ(document["height"], image.height);
  EXPECT_EQ(document["bytes"], fs::file_size(out));
  EXPECT_EQ(document["heads"], nlohmann::json({1}));
  EXPECT_EQ(document["panels"]["weights"]["masked"], 3);
  EXPECT_NEAR(document["panels"]["weights"]["min"], 1.0 / 3, 1e-6);
  EXPECT_EQ(document["panels"]["weights"]["max"], 1);
  EXPECT_EQ(document["panels"]["logits"]["max"], 0);
  // The first query's weight of 1, the hatch, and no cell that is not finite.
  EXPECT_TRUE(Shows(image, ColourMap::Sequential().At(1)));
  EXPECT_TRUE(Shows(image, kMaskedStripe));
  EXPECT_TRUE(Shows(image, kMaskedGround));
}

TEST_F(HeatmapProgramTest, WithoutAMaskNothingIsHatched) {
  const std::string out = folder_.File("a.png");
  ASSERT_EQ(Heatmap({"--input", Uniform(1, 3), "--output", out}).exit_code, 0);
  EXPECT_FALSE(Shows(DecodePngFile(out), kMaskedGround));
}

TEST_F(HeatmapProgramTest, AnSvgHasTokensAndTheValuesOfItsCells) {
  const std::string out = folder_.File("a.svg");
  const std::string tokens = folder_.Write("t.txt", "<s>\n the\n\"R&D\"\n");
  const ProgramResult result =
      Heatmap({"--input", Counting({1, 2, 4}), "--scale", "1", "--causal",
               "--tokens", tokens, "--output", out, "--title", "a < b"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("logits 1 to 4"));
  EXPECT_THAT(result.out, HasSubstr("3 of 9 cells masked"));
  const XmlDocument svg = ReadSvg(out);
  ASSERT_EQ(svg.fault, "");
  const std::string cells = TextsOf(svg, "title");
  EXPECT_THAT(cells, HasSubstr("head 0, query 2 \"\"R&D\"\", key 1 \"_the\": "
                               "logits 2\n"));
  // 1 / (1 + e): of logits 1 and 2.
  EXPECT_THAT(cells, HasSubstr("query 1 \"_the\", key 0 \"<s>\": weights "
                               "0.2689"));
  EXPECT_THAT(cells, HasSubstr("key 2 \"\"R&D\"\": masked\n"));
  const std::string texts = TextsOf(svg, "text");
  for (const char* text : {"a < b\n", "_the\n", "logit (nats)\n", "weight\n",
                           "query\n", "key\n", "masked\n"}) {
    EXPECT_THAT(texts, HasSubstr(text));
  }
}

// The greatest logit of each tile of 2 x 2 keys; a tile of masked ones alone is
// masked, though the server's answer is NaN for it, as it is for tiles that
// have a NaN.
TEST_F(HeatmapProgramTest, PooledTilesTellMaskedFromNaN) {
  std::vector<double> keys(1000, 0.0);
  keys[500] = NAN;
  const std::string input = Counting(keys);
  const std::vector<std::string> call = {
      "--input", input,      "--causal",           "--cell-size",
      "1",       "--output", folder_.File("a.svg")};
  const auto document = Document(call);
  const auto step = document["keys"]["step"].get<int64_t>();
  ASSERT_GT(step, 1);
  const auto cells = document["keys"]["cells"].get<int64_t>();
  EXPECT_EQ(cells, (1000 + step - 1) / step);
  // Tiles of the rows from 500 on are NaN in the weights, every column of them
  // that is seen; in the logits only the key's own column is.
  const int64_t first = 500 / step;
  int64_t seen = 0;
  for (int64_t row = first; row < cells; ++row) seen += row + 1;
  EXPECT_EQ(document["panels"]["weights"]["not_finite"], seen);
  EXPECT_EQ(document["panels"]["logits"]["not_finite"], cells - first);
  EXPECT_EQ(document["panels"]["weights"]["masked"], cells * (cells - 1) / 2);
  EXPECT_THAT(TextsOf(ReadSvg(folder_.File("a.svg")), "text"),
              HasSubstr("weight, max of " + std::to_string(step) + " × " +
                        std::to_string(step) + "\n"));
}

TEST_F(HeatmapProgramTest, WindowsAndPoolingAreThoseAskedFor) {
  std::vector<double> keys(400);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<double>(i);
  const auto document =
      Document({"--input", Counting(keys), "--scale", "1", "--rows", "100:200",
                "--columns", "200:400", "--what", "logits", "--pool", "min",
                "--cell-size", "8", "--output", folder_.File("a.png")});
  EXPECT_EQ(document["queries"]["begin"], 100);
  EXPECT_EQ(document["keys"]["end"], 400);
  EXPECT_FALSE(document["panels"].contains("weights"));
  const auto step = document["keys"]["step"].get<double>();
  ASSERT_GT(step, 1);
  // The least of the last tile, which may be a smaller one.
  const double last = 200 + step * std::floor(199 / step);
  EXPECT_EQ(document["panels"]["logits"]["min"], 200);
  EXPECT_EQ(document["panels"]["logits"]["max"], last);
}

TEST_F(HeatmapProgramTest, InfiniteInputsAreDrawnAsNotFinite) {
  const std::string out = folder_.File("a.png");
  const auto document = Document(
      {"--input", Counting({1, std::numeric_limits<double>::infinity(), 2}),
       "--output", out});
  EXPECT_EQ(document["panels"]["logits"]["not_finite"], 3);
  EXPECT_EQ(document["panels"]["logits"]["masked"], 0);
  EXPECT_TRUE(Shows(DecodePngFile(out), kNotFiniteColour));
}

TEST_F(HeatmapProgramTest, WithoutAnOutputItDrawsOnTheTerminal) {
  const ProgramResult result = Heatmap({"--input", Uniform(2, 3), "--causal"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("head 0: queries down, keys across\n"));
  EXPECT_THAT(result.out, HasSubstr("head 1: queries down"));
  EXPECT_THAT(result.out, HasSubstr("█··"));
  EXPECT_THAT(result.out, HasSubstr("logit (nats)"));
}

TEST_F(HeatmapProgramTest, LongSequencesFitTheTerminal) {
  const ProgramResult result = Heatmap({"--input", Uniform(1, 300)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("weight, max of 7 × 10"));
  EXPECT_THAT(result.out, HasSubstr("294-299"));
}

TEST_F(HeatmapProgramTest, ManyHeadsAreNotAllDrawnUnasked) {
  const std::string out = folder_.File("a.png");
  const ProgramResult result =
      Heatmap({"--input", Uniform(20, 2), "--output", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: the first 16 of 20 heads"));
  EXPECT_THAT(result.out, HasSubstr("16 heads"));
}

TEST_F(HeatmapProgramTest, TheExampleIsDrawnWithItsTokens) {
  const std::string out = folder_.File("a.svg");
  const std::string example = ATTN_SOURCE_DIR "/deploy/example/";
  const ProgramResult result =
      Heatmap({"--input", example + "example.npz", "--causal", "--tokens",
               example + "tokens.json", "--output", out});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const XmlDocument svg = ReadSvg(out);
  EXPECT_EQ(svg.fault, "");
  EXPECT_THAT(TextsOf(svg, "text"), HasSubstr("ked\n"));
  EXPECT_THAT(TextsOf(svg, "text"), HasSubstr("head 7\n"));
}

TEST_F(HeatmapProgramTest, WhatIsWrongIsOneLineAndLeavesNoFile) {
  const std::string input = Uniform(2, 3);
  const std::string tokens = folder_.Write("t.txt", "a\nb\nc\nd\n");
  const std::string out = folder_.File("out.png");
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--output", folder_.File("a.jpg")}, "ends in .png or .svg"},
      {{"--output", out, "--heads", "2"}, "--heads: got \"2\""},
      {{"--output", out, "--rows", "4:"}, "--rows"},
      {{"--output", out, "--batch", "1"}, "--batch"},
      {{"--output", out, "--tokens", tokens}, "--tokens: got 4 tokens"},
      {{"--output", out, "--tokens", "no.txt"}, "no.txt: No such file"},
      {{"--output", out, "--font", "no.ttf"}, "no.ttf"},
      {{"--output", out, "--max-size", "9"}, "--max-size: got 9"},
      {{"--output", folder_.File("no/a.png")}, "no/a.png: No such file"},
      {{"--output", folder_.path() + "/."}, "ends in .png or .svg"},
  };
  for (const auto& wrong : cases) {
    std::vector<std::string> arguments = {"--input", input};
    arguments.insert(arguments.end(), wrong.arguments.begin(),
                     wrong.arguments.end());
    const ProgramResult result = Heatmap(arguments);
    EXPECT_EQ(result.exit_code, 2) << wrong.says;
    EXPECT_THAT(result.err, HasSubstr(wrong.says));
    EXPECT_THAT(result.err, StartsWith("attn: "));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(HeatmapProgramTest, ARefusedCallLeavesTheOldFileAlone) {
  const std::string out = folder_.Write("old.png", "old");
  const ProgramResult result = Heatmap(
      {"--input", Uniform(1, 3), "--output", out, "--normalizer", "linear"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(fs::file_size(out), 3U);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".attn-")));
    ++files;
  }
  EXPECT_EQ(files, 2);
}

TEST_F(HeatmapProgramTest, AServerThatIsNotThereExitsWithFour) {
  const std::string address = server_->grpc_addresses()[0];
  const std::string input = Uniform(1, 3);
  server_->Hurry();
  server_->Stop();
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "--address", address, "heatmap", "--input",
                  input, "--output", folder_.File("a.png")});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_FALSE(fs::exists(folder_.File("a.png")));
}

TEST_F(HeatmapProgramTest, HelpComesWithExamples) {
  EXPECT_THAT(Heatmap({"--help"}).out, HasSubstr("Examples:\n  attn heatmap"));
}

}  // namespace
}  // namespace attn
