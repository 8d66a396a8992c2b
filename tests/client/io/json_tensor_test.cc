#include "client/io/json_tensor.h"

#include <cmath>
#include <limits>
#include <string>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  const auto tensors = ParseJsonTensors(text, "x.json");
  if (tensors.ok()) return "no error";
  return std::string(tensors.status().message());
}

TEST(JsonTensorTest, ReadsFlatAndNestedData) {
  const auto tensors = ParseJsonTensors(
      R"({"q": {"dtype": "F64", "shape": [2, 2], "data": [1, 2, 3, 4]},
          "k": {"shape": [2, 2], "data": [[1, 2], [3, 4]]}})",
      "x");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("q").dtype(), DType::kF64);
  EXPECT_EQ(tensors->at("k").dtype(), DType::kF32);
  EXPECT_EQ(tensors->at("k").At(2), 3);
}

TEST(JsonTensorTest, ReadsInfinitiesAndNanFromStrings) {
  const auto tensors = ParseJsonTensors(
      R"({"shape": [3], "data": ["inf", "-inf", "nan"]})", "x");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const HostTensor& tensor = tensors->at("");
  EXPECT_EQ(tensor.At(0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(tensor.At(1), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(tensor.At(2)));
}

TEST(JsonTensorTest, WritesWhatItReads) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("x", HostTensor(DType::kBF16, {2}));
  tensors.at("x").Set(0, -1.5);
  tensors.at("x").Set(1, std::numeric_limits<double>::infinity());
  tensors.emplace("i", HostTensor(DType::kI64, {1}));
  tensors.at("i").Set(0, 1LL << 50);
  tensors.emplace("b", HostTensor(DType::kBool, {1}));
  ASSERT_TRUE(WriteTensors(folder.File("a.json"), tensors).ok());
  const auto read = ReadTensors(folder.File("a.json"));
  ASSERT_TRUE(read.ok()) << read.status();
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(read->contains(name));
    EXPECT_EQ(read->at(name).dtype(), tensor.dtype());
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      EXPECT_EQ(read->at(name).At(i), tensor.At(i));
    }
  }
}

TEST(JsonTensorTest, RefusesWhatItCannotMean) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("[1, 2]"), HasSubstr("tensor"));
  EXPECT_THAT(ErrorOf(R"({"q": 1, "q": 2})"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(R"({"shape": [3], "data": [1, 2]})"),
              HasSubstr("2 elements"));
  EXPECT_THAT(ErrorOf(R"({"shape": [-1], "data": []})"), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(R"({"shape": [1e300], "data": []})"), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(R"({"shape": 3, "data": []})"), HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(R"({"shape": [4294967296, 4294967296], "data": [1]})"),
              HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(R"({"dtype": "F8", "shape": [], "data": 1})"),
              HasSubstr("dtype"));
  EXPECT_THAT(ErrorOf(R"({"shape": [1], "data": ["x"]})"), HasSubstr("data"));
  EXPECT_THAT(ErrorOf(R"({"dtype": "I8", "shape": [1], "data": [300]})"),
              HasSubstr("I8"));
  EXPECT_THAT(ErrorOf(R"({"dtype": "I32", "shape": [1], "data": [0.5]})"),
              HasSubstr("I32"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("x.json: "));
}

TEST(JsonTensorTest, EveryTruncationIsOneLineThatNamesTheFile) {
  const std::string whole =
      R"({"q": {"dtype": "F32", "shape": [2], "data": [1.5, "nan"]}})";
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = ErrorOf(whole.substr(0, size));
    EXPECT_THAT(error, StartsWith("x.json: ")) << size;
    EXPECT_EQ(error.find('\n'), std::string::npos) << size;
  }
}

}  // namespace
}  // namespace attn
