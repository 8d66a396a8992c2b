#include "client/io/safetensors.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(SafetensorsTest, ReadsAFileMadeByHand) {
  const ScratchFolder folder;
  const std::string json =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(json.size());
  bytes += json;
  bytes += std::string("\0\0\x80\x3f\0\0\0\x40", 8);  // 1.0f, 2.0f
  const auto tensors = ReadTensors(folder.Write("x.safetensors", bytes));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_THAT(*tensors, SizeIs(1));
  EXPECT_EQ(tensors->at("a").At(0), 1.0);
  EXPECT_EQ(tensors->at("a").At(1), 2.0);
}

TEST(SafetensorsTest, EveryTypeComesBackAsItWasWritten) {
  const ScratchFolder folder;
  TensorMap tensors;
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kBool,
        DType::kI8, DType::kI32, DType::kI64}) {
    HostTensor tensor(dtype, Shape{2, 3});
    for (int64_t i = 0; i < 6; ++i) tensor.Set(i, static_cast<double>(i % 2));
    tensors.emplace(std::string(Name(dtype)), std::move(tensor));
  }
  tensors.emplace("empty", HostTensor(DType::kF32, Shape{0, 4}));
  const std::string path = folder.File("x.safetensors");
  ASSERT_TRUE(WriteTensors(path, tensors).ok());
  const auto back = ReadTensors(path);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(back->at(name).dtype(), tensor.dtype()) << name;
    ASSERT_EQ(back->at(name).shape(), tensor.shape()) << name;
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      EXPECT_EQ(back->at(name).At(i), tensor.At(i)) << name;
    }
  }
}

TEST(SafetensorsTest, ACutFileIsRefusedByName) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("a", HostTensor(DType::kF32, Shape{3}));
  const std::string path = folder.File("x.safetensors");
  ASSERT_TRUE(WriteTensors(path, tensors).ok());
  const auto bytes = folder.Write("y.safetensors", "short");
  EXPECT_THAT(std::string(ReadTensors(bytes).status().message()),
              HasSubstr("y.safetensors: "));
}

}  // namespace
}  // namespace attn
