// `attn convert` as a user runs it.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr DType kAllDTypes[] = {DType::kF32, DType::kF16,  DType::kBF16,
                                DType::kF64, DType::kBool, DType::kI8,
                                DType::kI32, DType::kI64};

ProgramResult Convert(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {ATTN_PROGRAM, "convert"});
  return RunProgram(arguments);
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every byte counts up; where `payloads` is not wanted, NaNs are taken out. The
// first integers are the ends of their range.
HostTensor Patterned(DType dtype, bool payloads) {
  HostTensor tensor(dtype, {3, 100});
  auto* bytes = reinterpret_cast<unsigned char*>(tensor.data());
  for (size_t i = 0; i < tensor.byte_count(); ++i) {
    bytes[i] = static_cast<unsigned char>(
        dtype == DType::kBool ? i % 2 : (i * 37 + i / 256) % 256);
  }
  if (dtype == DType::kI64) {
    tensor.values<int64_t>()[0] = std::numeric_limits<int64_t>::max();
    tensor.values<int64_t>()[1] = std::numeric_limits<int64_t>::min();
  }
  // The last elements: -0, infinity, and a NaN with every bit set.
  if (IsFloat(dtype)) {
    tensor.Set(297, -0.0);
    tensor.Set(298, std::numeric_limits<double>::infinity());
    std::memset(bytes + 299 * SizeOf(dtype), 0xFF, SizeOf(dtype));
  }
  for (int64_t i = 0; i < tensor.element_count() && !payloads; ++i) {
    if (tensor.At(i) != tensor.At(i)) tensor.Set(i, 1.5);
  }
  return tensor;
}

void ExpectSameBits(const HostTensor& got, const HostTensor& want) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.byte_count()), 0);
}

class ConvertedPair
    : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string from() const { return std::get<0>(GetParam()); }
  std::string to() const { return std::get<1>(GetParam()); }
  // JSON has one NaN.
  bool keeps_payloads() const { return from() != "json" && to() != "json"; }
};

// Those that hold names.
class ConvertedArchives : public ConvertedPair {};

TEST_P(ConvertedPair, KeepsEveryBitOfEveryType) {
  const ScratchFolder folder;
  for (const DType dtype : kAllDTypes) {
    const std::string in = folder.File("in." + from());
    const std::string out = folder.File("out." + to());
    TensorMap tensors;
    tensors.emplace("in", Patterned(dtype, keeps_payloads()));
    ASSERT_TRUE(WriteTensors(in, tensors).ok());
    const ProgramResult result = Convert({in, out, "--force"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto read = ReadTensors(out);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), 1U);
    EXPECT_EQ(read->begin()->first, to() == "npy" ? "" : "in");
    SCOPED_TRACE(std::string(Name(dtype)));
    ExpectSameBits(read->begin()->second, tensors.at("in"));
  }
}

TEST_P(ConvertedArchives, KeepsNamesAndShapes) {
  const ScratchFolder folder;
  TensorMap tensors;
  tensors.emplace("layer.0/q", Patterned(DType::kF32, false));
  tensors.emplace("größe", HostTensor(DType::kI8, {0, 4}));
  tensors.emplace("scalar", HostTensor(DType::kF64, {}));
  const std::string in = folder.File("in." + from());
  const std::string out = folder.File("out." + to());
  ASSERT_TRUE(WriteTensors(in, tensors).ok());
  const ProgramResult result = Convert({in, out});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto read = ReadTensors(out);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(read->contains(name)) << name;
    ExpectSameBits(read->at(name), tensor);
  }
}

std::string NameOfPair(
    const ::testing::TestParamInfo<ConvertedPair::ParamType>& test) {
  return std::string(std::get<0>(test.param)) + "To" + std::get<1>(test.param);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ConvertedArchives,
    ::testing::Combine(::testing::Values("npz", "safetensors", "json"),
                       ::testing::Values("npz", "safetensors", "json")),
    NameOfPair);
INSTANTIATE_TEST_SUITE_P(
    Kinds, ConvertedPair,
    ::testing::Combine(::testing::Values("npy", "npz", "safetensors", "json"),
                       ::testing::Values("npy", "npz", "safetensors", "json")),
    NameOfPair);

class ConvertProgramTest : public ::testing::Test {
 protected:
  // Three tensors: k, mask and q.
  std::string ThreeTensors() const {
    TensorMap tensors;
    tensors.emplace("q", HostTensor(DType::kF32, {2, 3}));
    tensors.emplace("k", HostTensor(DType::kF32, {4}));
    tensors.emplace("mask", HostTensor(DType::kBool, {4}));
    tensors.at("q").Set(5, 1.0 / 3);
    std::string path = folder_.File("in.npz");
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  void ExpectError(const std::vector<std::string>& arguments,
                   const std::string& says) const {
    const ProgramResult result = Convert(arguments);
    EXPECT_EQ(result.exit_code, 2) << says;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("attn: "));
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }

  int FileCount() const {
    const fs::directory_iterator files(folder_.path());
    return static_cast<int>(std::distance(begin(files), end(files)));
  }

  ScratchFolder folder_;
};

TEST_F(ConvertProgramTest, TakesTheTensorsThatAreNamed) {
  const std::string in = ThreeTensors();
  const std::string out = folder_.File("out.npy");
  const ProgramResult result = Convert({in, out, "--tensor", "q"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "q  F32 [2, 3]\n" + out + ": 1 tensor\n");
  EXPECT_EQ(ReadTensor(out)->shape(), (Shape{2, 3}));
  const std::string two = folder_.File("two.safetensors");
  ASSERT_EQ(Convert({in, two, "--tensor", "q,mask"}).exit_code, 0);
  EXPECT_EQ(ReadTensors(two)->size(), 2U);
}

// The file was written, and then the document could not be.
TEST_F(ConvertProgramTest, APathThatIsNoUtf8IsNoErrorInJson) {
  const std::string out = folder_.File("\xFF.npz");
  const ProgramResult result = Convert({ThreeTensors(), out, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("/\xEF\xBF\xBD.npz\""));
  EXPECT_TRUE(fs::exists(out));
}

TEST_F(ConvertProgramTest, ListsTheNamesWhereOneMustBeChosen) {
  const std::string in = ThreeTensors();
  ExpectError({in, folder_.File("out.npy")},
              "has 3; choose one with --tensor: k, mask, q");
  ExpectError({in, folder_.File("out.npy"), "--tensor", "v"},
              "--tensor: got \"v\", expected of " + in + ": k, mask, q");
  ExpectError({in, folder_.File("out.npy"), "--tensor", "q,q"}, "\"q\" twice");
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(ConvertProgramTest, ConvertsFloatsAndNothingElse) {
  const std::string out = folder_.File("out.npz");
  ASSERT_EQ(Convert({ThreeTensors(), out, "--dtype", "bf16"}).exit_code, 0);
  const auto read = ReadTensors(out);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at("q").dtype(), DType::kBF16);
  EXPECT_NEAR(read->at("q").At(5), 1.0 / 3, 1.0 / 512);
  EXPECT_EQ(read->at("mask").dtype(), DType::kBool);
  ExpectError({ThreeTensors(), folder_.File("b.npz"), "--dtype", "i8"},
              "--dtype");
}

TEST_F(ConvertProgramTest, ReplacesAFileOnlyWhenTold) {
  const std::string in = ThreeTensors();
  const std::string out = folder_.Write("out.npz", "precious");
  ExpectError({in, out}, out + ": there is such a file; --force replaces it");
  EXPECT_EQ(Bytes(out), "precious");
  EXPECT_EQ(Convert({in, out, "--force"}).exit_code, 0);
  EXPECT_EQ(ReadTensors(out)->size(), 3U);
  // The file that is read may be the one that is written.
  EXPECT_EQ(Convert({out, out, "--force", "--tensor", "k"}).exit_code, 0);
  EXPECT_EQ(ReadTensors(out)->size(), 1U);
  EXPECT_EQ(FileCount(), 2);
}

TEST_F(ConvertProgramTest, ALinkIsFollowed) {
  const std::string in = ThreeTensors();
  const std::string real = folder_.Write("real.npz", "old");
  const std::string link = folder_.File("link.npz");
  fs::create_symlink("real.npz", link);
  ASSERT_EQ(Convert({in, link, "--force"}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(ReadTensors(real)->size(), 3U);
}

TEST_F(ConvertProgramTest, OthersMayReadWhatTheUsersRightsSay) {
  const std::string out = folder_.File("out.npz");
  ASSERT_EQ(RunProgram({"/bin/sh", "-c",
                        "umask 027; exec " ATTN_PROGRAM " convert " +
                            ThreeTensors() + " " + out})
                .exit_code,
            0);
  EXPECT_EQ(static_cast<int>(fs::status(out).permissions()), 0640);
}

// As on a full disk: no file may grow beyond a few blocks.
TEST_F(ConvertProgramTest, AFailedWriteLeavesNothingBehind) {
  TensorMap tensors;
  tensors.emplace("x", HostTensor(DType::kF64, {100000}));
  for (int64_t i = 0; i < 100000; ++i) {
    tensors.at("x").Set(i, 1.0 / static_cast<double>(i + 1));
  }
  const std::string in = folder_.File("in.npz");
  ASSERT_TRUE(WriteTensors(in, tensors).ok());
  for (const char* kind : {"npy", "npz", "safetensors", "json"}) {
    const std::string out =
        folder_.Write(std::string("out.") + kind, "precious");
    const int files = FileCount();
    const ProgramResult result = RunProgram(
        {"/bin/sh", "-c",
         "trap '' XFSZ; ulimit -f 8; exec " ATTN_PROGRAM " convert --force " +
             in + " " + out});
    EXPECT_EQ(result.exit_code, 2) << kind;
    EXPECT_THAT(result.err, StartsWith("attn: " + out + ": "));
    EXPECT_THAT(result.err, HasSubstr("File too large"));
    EXPECT_EQ(Bytes(out), "precious") << kind;
    EXPECT_EQ(FileCount(), files) << kind;
  }
}

TEST_F(ConvertProgramTest, HostileFilesAreOneClearLine) {
  const std::string good = ThreeTensors();
  const std::string npz = Bytes(good);
  ASSERT_EQ(Convert({good, folder_.File("g.safetensors")}).exit_code, 0);
  const std::string safetensors = Bytes(folder_.File("g.safetensors"));
  const std::string out = folder_.File("out.json");
  const auto write = [this](const std::string& name, const std::string& bytes) {
    return folder_.Write(name, bytes);
  };
  ExpectError({folder_.File("no.npz"), out}, "no.npz: No such file");
  ExpectError({write("t.npz", npz.substr(0, npz.size() / 2)), out}, "t.npz: ");
  ExpectError({write("e.npz", ""), out}, "e.npz: ");
  ExpectError(
      {write("t.safetensors", safetensors.substr(0, safetensors.size() - 3)),
       out},
      "t.safetensors: ");
  ExpectError({write("s.safetensors", "abc"), out}, "s.safetensors: ");
  // A header of 2^62 bytes.
  ExpectError(
      {write("l.safetensors", std::string("\0\0\0\0\0\0\0\x40{}", 10)), out},
      "l.safetensors: ");
  ExpectError({write("d.npy", std::string("\x93NUMPY\1\0\x3f\0", 10) +
                                  "{'descr': '<c16', 'fortran_order': False, "
                                  "'shape': (1,), }   \n" +
                                  std::string(16, '\0')),
               out},
              "d.npy: ");
  ExpectError({write("j.json", "{\"x\": "), out}, "j.json: not valid JSON");
  ExpectError({write("x.txt", "x"), out}, "x.txt: expected a name that ends");
  fs::create_directory(folder_.File("dir.npz"));
  fs::create_directory(folder_.File("dir.npy"));
  ExpectError({folder_.File("dir.npy"), out}, "dir.npy: Is a directory");
  ExpectError({folder_.File("dir.npz"), out}, "dir.npz: ");
  EXPECT_FALSE(fs::exists(out));
  ExpectError({good, folder_.File("dir.npz")}, "dir.npz: Is a directory");
  ExpectError({good, folder_.File("no/out.npz")}, "no/out.npz: No such file");
  ExpectError({good, folder_.File("out.txt")}, "out.txt: expected a name");
}

TEST_F(ConvertProgramTest, NamesThatAFileCannotHoldAreRefused) {
  const std::string in =
      folder_.Write("in.json", R"({"a\u0000b": {"shape": [1], "data": [1]}})");
  ExpectError({in, folder_.File("out.npz")}, "out.npz: ");
  const std::string meta = folder_.Write(
      "meta.json", R"({"__metadata__": {"shape": [1], "data": [1]}})");
  ExpectError({meta, folder_.File("out.safetensors")}, "__metadata__");
}

TEST_F(ConvertProgramTest, SpeaksJson) {
  const std::string out = folder_.File("out.safetensors");
  const auto document = nlohmann::json::parse(
      Convert({ThreeTensors(), out, "--json"}).out, nullptr, false);
  EXPECT_EQ(document["file"], out);
  EXPECT_EQ(document["bytes"], fs::file_size(out));
  EXPECT_EQ(document["tensors"]["mask"]["dtype"], "BOOL");
  EXPECT_EQ(document["tensors"]["q"]["shape"], nlohmann::json({2, 3}));
}

TEST_F(ConvertProgramTest, HelpComesWithExamples) {
  EXPECT_THAT(Convert({"--help"}).out, HasSubstr("Examples:\n  attn convert"));
}

}  // namespace
}  // namespace attn
