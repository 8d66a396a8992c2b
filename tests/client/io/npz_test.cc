#include "client/io/npz.h"

#include <zip.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "client/io/npy.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

HostTensor Numbers(const Shape& shape) {
  HostTensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.Set(i, static_cast<double>(i % 7));
  }
  return tensor;
}

// An archive made by libzip itself, stored or deflated.
std::string MakeZip(
    const ScratchFolder& folder, zip_int32_t method,
    const std::vector<std::pair<std::string, std::string>>& members) {
  const std::string path = folder.File("made.npz");
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  for (const auto& [name, bytes] : members) {
    zip_source_t* source =
        zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index =
        zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method,
                             0);
  }
  zip_close(archive);
  return path;
}

std::string ErrorOf(const std::string& path, const ReadOptions& options = {}) {
  const auto tensors = ReadNpz(path, options);
  return tensors.ok() ? "no error" : std::string(tensors.status().message());
}

TEST(NpzTest, ReadsStoredAndDeflatedMembers) {
  const ScratchFolder folder;
  const std::string bytes = SerializeNpy(Numbers({2, 5}));
  for (const zip_int32_t method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    const auto tensors =
        ReadNpz(MakeZip(folder, method, {{"q.npy", bytes}, {"k.npy", bytes}}));
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), 2U);
    EXPECT_EQ(tensors->at("q").shape(), (Shape{2, 5}));
    EXPECT_EQ(tensors->at("k").At(9), 2);
  }
}

TEST(NpzTest, WritesWhatItReads) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("q", Numbers({3, 4}));
  tensors.emplace("mask", HostTensor(DType::kBool, {2}));
  ASSERT_TRUE(WriteTensors(folder.File("a.npz"), tensors).ok());
  const auto read = ReadTensors(folder.File("a.npz"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at("q").At(5), 5);
  EXPECT_EQ(read->at("mask").dtype(), DType::kBool);
}

TEST(NpzTest, EveryTruncationIsAnErrorThatNamesTheFile) {
  const ScratchFolder folder;
  const std::string whole = Contents(MakeZip(
      folder, ZIP_CM_DEFLATE, {{"q.npy", SerializeNpy(Numbers({2, 3}))}}));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.Write("cut.npz", whole.substr(0, size));
    EXPECT_THAT(ErrorOf(path), StartsWith(path + ": ")) << size;
  }
}

TEST(NpzTest, NoFlippedByteCrashes) {
  const ScratchFolder folder;
  const std::string whole = Contents(MakeZip(
      folder, ZIP_CM_DEFLATE, {{"q.npy", SerializeNpy(Numbers({2, 3}))}}));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    const auto tensors = ReadNpz(folder.Write("flip.npz", bytes));
    if (tensors.ok() && tensors->contains("q")) {
      EXPECT_EQ(tensors->at("q").shape(), (Shape{2, 3}));
    }
  }
}

TEST(NpzTest, RefusesANameThatComesTwice) {
  const ScratchFolder folder;
  const std::string bytes = SerializeNpy(Numbers({1}));
  // Two archive names, one tensor name.
  EXPECT_THAT(
      ErrorOf(MakeZip(folder, ZIP_CM_STORE, {{"q.npy", bytes}, {"q", bytes}})),
      HasSubstr("twice"));
}

TEST(NpzTest, RefusesAMemberThatIsNoArray) {
  const ScratchFolder folder;
  EXPECT_THAT(ErrorOf(MakeZip(folder, ZIP_CM_STORE, {{"readme.txt", "hello"}})),
              HasSubstr("readme.txt: not a .npy file"));
}

TEST(NpzTest, RefusesMoreThanItMayRead) {
  const ScratchFolder folder;
  const std::string bytes = SerializeNpy(Numbers({64, 64}));
  const std::string path =
      MakeZip(folder, ZIP_CM_DEFLATE, {{"a.npy", bytes}, {"b.npy", bytes}});
  EXPECT_THAT(ErrorOf(path, {.max_bytes = 20000}), HasSubstr("b.npy"));
  EXPECT_THAT(ErrorOf(path, {.max_bytes = 100}), HasSubstr("more than"));
}

TEST(NpzTest, ReportsAFileThatIsNotThere) {
  EXPECT_THAT(ErrorOf("no/such.npz"), StartsWith("no/such.npz: "));
}

// libzip removed the file, and nothing was said.
TEST(NpzTest, NoTensorsLeaveTheFileThatIsThere) {
  const ScratchFolder folder;
  const std::string path = folder.Write("a.npz", "old");
  EXPECT_THAT(WriteNpz(path, {}).ToString(), HasSubstr("no tensors to write"));
  EXPECT_EQ(Contents(path), "old");
}

}  // namespace
}  // namespace attn
