// What a user gets wrong, and what is said: one line that names what it is
// about, and the exit code of the help. None of it needs a server.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An address at which nothing answers: what is wrong with files must be seen
// before anything is sent.
constexpr char kNowhere[] = "127.0.0.1:1";

bool IsOneLine(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 &&
         text.back() == '\n' && absl::StartsWith(text, "attn: ");
}

std::string Safetensors(uint64_t length, const std::string& header,
                        const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(length >> (8 * i) & 0xff);
  }
  return bytes + header + data;
}

std::string Safetensors(const std::string& header, const std::string& data) {
  return Safetensors(header.size(), header, data);
}

class BadInputTest : public ::testing::Test {
 protected:
  ProgramResult Attn(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {ATTN_PROGRAM, "--address", kNowhere});
    return RunProgram(arguments);
  }

  // The one line that a command line which cannot be used ends with.
  std::string Complaint(const std::vector<std::string>& arguments) const {
    const ProgramResult result = Attn(arguments);
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_EQ(result.out, "") << testing::PrintToString(arguments);
    EXPECT_TRUE(IsOneLine(result.err))
        << testing::PrintToString(arguments) << result.err;
    return result.err;
  }

  // q, k and v of one head, which are good.
  std::string GoodFile() const {
    TensorMap tensors;
    for (const char* name : {"q", "k", "v"}) {
      tensors.emplace(name, HostTensor(DType::kF32, {1, 1, 3, 2}));
    }
    std::string path = folder_.File("good.npz");
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  std::string BytesOf(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchFolder folder_;
};

TEST_F(BadInputTest, FilesThatAreNoTensorsAreToldByName) {
  for (const char* ending : {"npy", "npz", "json", "safetensors"}) {
    const std::string missing = absl::StrCat("missing.", ending);
    EXPECT_THAT(Complaint({"attend", "--input", missing}),
                AllOf(HasSubstr(missing), HasSubstr("No such file")));
    const std::string empty = folder_.Write(absl::StrCat("empty.", ending), "");
    EXPECT_THAT(Complaint({"attend", "--input", empty}), HasSubstr(empty));
    const std::string noise =
        folder_.Write(absl::StrCat("noise.", ending), "hello\n\x1b[31m\n");
    EXPECT_THAT(Complaint({"attend", "--input", noise}), HasSubstr(noise));
    const std::string directory = folder_.File(absl::StrCat("d.", ending));
    fs::create_directory(directory);
    EXPECT_THAT(Complaint({"attend", "--input", directory}),
                AllOf(HasSubstr(directory), HasSubstr("directory")));
  }
  EXPECT_THAT(Complaint({"attend", "--input", "qkv.txt"}),
              HasSubstr(".safetensors"));
}

TEST_F(BadInputTest, ATruncatedNpzIsToldByName) {
  const std::string whole = BytesOf(GoodFile());
  for (const size_t bytes :
       {whole.size() / 4, whole.size() / 2, whole.size() - 1}) {
    const std::string cut = folder_.Write("cut.npz", whole.substr(0, bytes));
    EXPECT_THAT(Complaint({"attend", "--input", cut}),
                AllOf(HasSubstr("cut.npz"), HasSubstr("a whole .npz file")));
  }
}

TEST_F(BadInputTest, ATruncatedNpyIsToldByName) {
  TensorMap one;
  one.emplace("", HostTensor(DType::kF32, {1, 1, 3, 2}));
  const std::string path = folder_.File("q.npy");
  ASSERT_TRUE(WriteTensors(path, one).ok());
  const std::string whole = BytesOf(path);
  const std::string cut =
      folder_.Write("cut.npy", whole.substr(0, whole.size() - 5));
  EXPECT_THAT(Complaint({"attend", "--q", cut, "--k", path, "--v", path}),
              AllOf(HasSubstr("cut.npy"), HasSubstr("cut short")));
}

// The lengths of these headers lie, or what they describe does.
TEST_F(BadInputTest, HostileSafetensorsAreRefusedInOneLine) {
  const std::string entry = R"("dtype":"F32","shape":[2],"data_offsets":)";
  const std::string deep(200'000, '[');
  const std::vector<std::string> files = {
      Safetensors(uint64_t{1} << 63, "{}", ""),
      Safetensors(~uint64_t{0}, "{}", ""),
      Safetensors(1'000'000'000, "{}", ""),
      Safetensors(
          R"({"a":{)" + entry + R"([0,8]},"b":{)" + entry + R"([4,12]}})",
          std::string(12, '\0')),
      Safetensors(
          R"({"a":{)" + entry + R"([0,8]},"a":{)" + entry + R"([0,8]}})",
          std::string(8, '\0')),
      Safetensors(R"({"a":{"dtype":"F32","shape":[4611686018427387904,16],)"
                  R"("data_offsets":[0,4]}})",
                  std::string(4, '\0')),
      Safetensors(R"({"a":{"dtype":"F32","shape":[1099511627776],)"
                  R"("data_offsets":[0,4398046511104]}})",
                  std::string(4, '\0')),
      Safetensors(R"({"a":{)" + entry + R"([0,-8]}})", std::string(8, '\0')),
      Safetensors(R"({"a\n\u001b[2J":{"dtype":"X","shape":[],)"
                  R"("data_offsets":[0,0]}})",
                  ""),
      Safetensors("{\"\xff\xfe\":1}", ""),
      Safetensors(deep, ""),
      "short",
  };
  for (const std::string& bytes : files) {
    const std::string path = folder_.Write("hostile.safetensors", bytes);
    EXPECT_THAT(Complaint({"layer", "put", "x", path}),
                HasSubstr("hostile.safetensors: safetensors header: "));
  }
}

TEST_F(BadInputTest, ElementsThatAreNotReadAreToldWithWhatHelps) {
  std::string header =
      "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {1, 0, static_cast<char>(header.size()), 0};
  const std::string path =
      folder_.Write("complex.npy", bytes + header + std::string(16, '\0'));
  EXPECT_THAT(
      Complaint({"attend", "--q", path, "--k", path, "--v", path}),
      AllOf(HasSubstr("complex.npy"), HasSubstr("<c16"), HasSubstr("astype")));
}

TEST_F(BadInputTest, AWrongCommandLineIsOneLine) {
  const std::string good = GoodFile();
  EXPECT_THAT(Complaint({}), HasSubstr("no command, expected attend"));
  EXPECT_THAT(Complaint({"attned"}), HasSubstr("did you mean attend?"));
  EXPECT_THAT(Complaint({"attend", "--casual"}),
              HasSubstr("did you mean --causal?"));
  EXPECT_THAT(Complaint({"attend", "--input", good, "--scale", "big"}),
              HasSubstr("--scale: got \"big\", expected a number"));
  EXPECT_THAT(Complaint({"attend", "--input"}),
              HasSubstr("--input: got nothing, expected FILE"));
  EXPECT_THAT(Complaint({"attend", "--input", good, "--input", good}),
              HasSubstr("--input: given more than once"));
  EXPECT_THAT(Complaint({"attend", "--input", good, "--dtype", "int8"}),
              HasSubstr("expected f32, f16, bf16 or f64"));
  EXPECT_THAT(Complaint({"attend", "--input", good, "--want", "wights"}),
              HasSubstr("did you mean weights?"));
  EXPECT_THAT(Complaint({"inspect", "--input", good, "--pool", "most"}),
              HasSubstr("--pool"));
  EXPECT_THAT(Complaint({"attend", "--input", good, "--rtol", "1"}),
              HasSubstr("--compare"));
  EXPECT_THAT(Complaint({"plan", "--shape", "1,1,1,1,1,1", "--input", good}),
              HasSubstr("--input"));
  EXPECT_THAT(Complaint({"info", "--calibrate", "--budget", "soon"}),
              StartsWith("attn: --budget: "));
  EXPECT_THAT(Complaint({"--address", "nowhere", "health"}),
              HasSubstr("given more than once"));
  EXPECT_THAT(Complaint({"--timeout", "soon", "health"}),
              StartsWith("attn: --timeout: "));
  EXPECT_THAT(Complaint({"--tls-ca", good, "health"}),
              StartsWith("attn: --tls-ca: "));
  EXPECT_THAT(Complaint({"layer", "get"}), HasSubstr("name is required"));
}

// Before the call: its result would be lost.
TEST_F(BadInputTest, AnOutputThatCannotBeWrittenIsToldBeforeTheCall) {
  const std::string good = GoodFile();
  for (const std::string& out :
       {folder_.File("none/out.npz"), folder_.File("none/out.npy"),
        folder_.File("out.txt"), folder_.path() + "/."}) {
    EXPECT_THAT(Complaint({"attend", "--input", good, "--out", out}),
                HasSubstr(out));
  }
  EXPECT_THAT(Complaint({"attend", "--input", good, "--want", "output,lse",
                         "--out", folder_.File("out.npy")}),
              HasSubstr("one tensor, not 2"));
  EXPECT_THAT(Complaint({"inspect", "--input", good, "--out", "none/x.npz"}),
              HasSubstr("none/x.npz"));
  EXPECT_THAT(Complaint({"layer", "get", "x", "--output", "none/x.npz"}),
              HasSubstr("none/x.npz"));
}

TEST_F(BadInputTest, ASpecThatIsNoJsonIsOneLine) {
  const std::string spec = folder_.Write("spec.json", "{\n\n");
  EXPECT_THAT(Complaint({"attend", "--input", GoodFile(), "--spec", spec}),
              HasSubstr("spec.json"));
}

// The server that is not there is what is found last.
TEST_F(BadInputTest, NamesOfFilesMayBeAnyText) {
  const std::string path = folder_.File("é 'ü' 語.npz");
  fs::copy_file(GoodFile(), path);
  const ProgramResult result = Attn({"attend", "--input", path});
  EXPECT_EQ(result.exit_code, 4) << result.err;
}

TEST_F(BadInputTest, APipeIsReadLikeAFile) {
  TensorMap one;
  one.emplace("", HostTensor(DType::kF32, {1, 1, 3, 2}));
  const std::string path = folder_.File("q.npy");
  ASSERT_TRUE(WriteTensors(path, one).ok());
  const std::string pipe = folder_.File("pipe.npy");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer(
      [&] { std::ofstream(pipe, std::ios::binary) << BytesOf(path); });
  const ProgramResult result =
      Attn({"attend", "--q", pipe, "--k", path, "--v", path});
  writer.join();
  EXPECT_EQ(result.exit_code, 4) << result.err;
}

}  // namespace
}  // namespace attn
