// attn attend --stream against a server whose messages are short.
#include <memory>
#include <string>
#include <utility>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// q = 0: uniform weights, each 1 / 200.
std::string UniformInput(const ScratchFolder& folder) {
  TensorMap tensors;
  for (const char* name : {"q", "k", "v"}) {
    tensors.emplace(name, HostTensor(DType::kF32, {1, 1, 200, 32}));
  }
  std::string path = folder.File("in.npz");
  EXPECT_TRUE(WriteTensors(path, tensors).ok());
  return path;
}

TEST(AttendStreamCommand, TakesAndGivesMoreThanAMessageHolds) {
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  ServerOptions options;
  options.grpc_addresses = {"127.0.0.1:0"};
  options.metrics_address = "";
  options.drain_delay = absl::ZeroDuration();
  options.max_message_bytes = 50000;
  auto server = Server::Start(options, log);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->grpc_addresses()[0];
  const ScratchFolder folder;
  const std::string in = UniformInput(folder);
  const std::string out = folder.File("weights.npy");

  const ProgramResult refused =
      RunProgram({ATTN_PROGRAM, "--address", address, "attend", "--input", in,
                  "--want", "weights"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--max-message-bytes=50000"),
                                 HasSubstr("AttendStream")));
  const ProgramResult result =
      RunProgram({ATTN_PROGRAM, "--address", address, "attend", "--input", in,
                  "--want", "weights", "--out", out, "--stream"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto weights = ReadTensors(out);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const HostTensor& tensor = weights->begin()->second;
  EXPECT_EQ(tensor.shape(), Shape({1, 1, 200, 200}));
  for (const float weight : tensor.values<float>()) {
    ASSERT_FLOAT_EQ(weight, 1.0F / 200);
  }
  (*server)->Hurry();
}

}  // namespace
}  // namespace attn
