// What `attn` needs no flags for: unix sockets by their address, large calls.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// A server that only a unix socket leads to.
class TransportTest : public ::testing::Test {
 protected:
  TransportTest()
      : log_(LogFormat::kText, [](const std::string&) {}),
        address_("unix:" + folder_.File("socket")) {
    ServerOptions options;
    options.grpc_addresses = {address_};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 2;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~TransportTest() override { server_->Hurry(); }

  ProgramResult Attn(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {ATTN_PROGRAM, "--address", address_});
    return RunProgram(arguments);
  }

  // F32 [1, 1, rows, 64] of zeros for q, k and v.
  std::string Input(int64_t q_rows, int64_t kv_rows) const {
    TensorMap tensors;
    tensors.emplace("q", HostTensor(DType::kF32, {1, 1, q_rows, 64}));
    tensors.emplace("k", HostTensor(DType::kF32, {1, 1, kv_rows, 64}));
    tensors.emplace("v", HostTensor(DType::kF32, {1, 1, kv_rows, 64}));
    std::string path = folder_.File("in.safetensors");
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  const ScratchFolder folder_;
  LineLog log_;
  const std::string address_;
  std::unique_ptr<Server> server_;
};

TEST_F(TransportTest, EveryCommandTakesAUnixAddress) {
  const std::string input = Input(2, 3);
  const std::vector<std::vector<std::string>> commands = {
      {"health"},
      {"info"},
      {"plan", "--input", input},
      {"attend", "--input", input},
      {"load", "--closed", "2", "--duration", "0.1s", "--warmup", "0s"}};
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = Attn(command);
    EXPECT_EQ(result.exit_code, 0) << command[0] << ": " << result.err;
  }
}

TEST_F(TransportTest, ASocketThatIsNotThereExitsWithFour) {
  const ProgramResult result = RunProgram(
      {ATTN_PROGRAM, "--address", "unix:" + folder_.File("none"), "health"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("no server answers at unix:"));
}

TEST_F(TransportTest, ARequestOf64MebibytesNeedsNoFlag) {
  constexpr int64_t kRows = (int64_t{32} << 20) / 64 / 4;
  const ProgramResult result = Attn({"attend", "--input", Input(1, kRows)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(TransportTest, AResponseBeyondGrpcsOwn4MebibytesNeedsNoFlag) {
  constexpr int64_t kRows = (int64_t{5} << 20) / 64 / 4;
  const std::string output = folder_.File("out.safetensors");
  const ProgramResult result =
      Attn({"attend", "--input", Input(kRows, 1), "--out", output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto tensors = ReadTensors(output);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("output").byte_count(), size_t{5} << 20);
}

}  // namespace
}  // namespace attn
