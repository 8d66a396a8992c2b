#include "client/io/tensor_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

TEST(TensorFileTest, ANpyFileHoldsOneTensor) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("output", HostTensor(DType::kF64, {3}));
  ASSERT_TRUE(WriteTensors(folder.File("a.npy"), tensors).ok());
  const auto read = ReadTensor(folder.File("a.npy"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dtype(), DType::kF64);
  tensors.emplace("lse", HostTensor(DType::kF64, {3}));
  EXPECT_THAT(WriteTensors(folder.File("b.npy"), tensors).ToString(),
              HasSubstr("one tensor, not 2"));
}

TEST(TensorFileTest, NamesTheEndingsThatItKnows) {
  EXPECT_THAT(ReadTensors("x.txt").status().ToString(),
              HasSubstr("x.txt: expected a name that ends in"));
}

TEST(TensorFileTest, AFileThatIsNotThereIsNotFound) {
  const auto read = ReadTensors("no/such.npy");
  EXPECT_TRUE(absl::IsNotFound(read.status())) << read.status();
}

TEST(TensorFileTest, RefusesAFileOfSeveralTensorsWhereOneIsMeant) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("a", HostTensor(DType::kF32, {1}));
  tensors.emplace("b", HostTensor(DType::kF32, {1}));
  ASSERT_TRUE(WriteTensors(folder.File("a.npz"), tensors).ok());
  EXPECT_THAT(ReadTensor(folder.File("a.npz")).status().ToString(),
              HasSubstr("2 tensors"));
}

}  // namespace
}  // namespace attn
