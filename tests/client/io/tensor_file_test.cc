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

// It threw, and the error named no file.
TEST(TensorFileTest, ANameThatIsNoUtf8IsMadeSome) {
  const ScratchFolder folder;
  for (const std::string ending : {".json", ".safetensors"}) {
    TensorMap tensors;
    tensors.emplace("a\xff", HostTensor(DType::kF32, {1}));
    const std::string path = folder.File("a" + ending);
    const absl::Status status = WriteTensors(path, tensors);
    ASSERT_TRUE(status.ok()) << status;
    const auto read = ReadTensors(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->begin()->first, "a\xef\xbf\xbd");
  }
}

TEST(TensorFileTest, AnOutputIsLookedAtBeforeTheWork) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckOutputFile("", 3).ok());
  EXPECT_TRUE(CheckOutputFile(folder.File("new.npz"), 3).ok());
  EXPECT_TRUE(CheckOutputFile(folder.File("new.npy"), 1).ok());
  EXPECT_TRUE(CheckOutputFile(folder.Write("there.json", "{}"), 2).ok());
  EXPECT_THAT(CheckOutputFile(folder.File("new.npy"), 2).ToString(),
              HasSubstr("one tensor, not 2"));
  EXPECT_THAT(CheckOutputFile(folder.File("none/new.npz"), 1).ToString(),
              HasSubstr("none/new.npz: No such file"));
  EXPECT_THAT(CheckOutputFile(folder.File("new.txt"), 1).ToString(),
              HasSubstr("a name that ends in"));
  folder.Write("d.npz/inside", "");
  EXPECT_THAT(CheckOutputFile(folder.File("d.npz"), 1).ToString(),
              HasSubstr("d.npz: Is a directory"));
  // It was only looked at.
  EXPECT_TRUE(absl::IsNotFound(ReadTensors(folder.File("new.npy")).status()));
}

}  // namespace
}  // namespace attn
