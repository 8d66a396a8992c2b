// `attn layer` as a user runs it, against a server in this process.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/io/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"
#include "tests/client/testing/program.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

class LayerCommandTest : public ::testing::Test {
 protected:
  LayerCommandTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~LayerCommandTest() override { server_->Hurry(); }

  // attn --address ADDRESS layer arguments...
  ProgramResult Layer(std::vector<std::string> arguments) const {
    arguments.insert(
        arguments.begin(),
        {ATTN_PROGRAM, "--address", server_->grpc_addresses()[0], "layer"});
    return RunProgram(arguments);
  }
  std::string NumberFile(const std::string& name, double value) const {
    TensorMap tensors;
    tensors.emplace("w", HostTensor(DType::kF32, {1}));
    tensors.at("w").Set(0, value);
    std::string path = folder_.File(name);
    EXPECT_TRUE(WriteTensors(path, tensors).ok());
    return path;
  }

  ScratchFolder folder_;
  LineLog log_;
  std::unique_ptr<Server> server_;
};

TEST_F(LayerCommandTest, PutsListsGetsAndDeletes) {
  const std::string file = NumberFile("in.safetensors", 3);
  const std::string named = "v=" + NumberFile("v.npy", 5);
  const ProgramResult put = Layer({"put", "mine", file, named});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_THAT(put.out, HasSubstr("mine: version "));
  const ProgramResult list = Layer({"list", "--json"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  const auto layers = nlohmann::json::parse(list.out);
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0]["name"], "mine");
  EXPECT_EQ(layers[0]["tensors"].size(), 2u);
  const std::string output = folder_.File("out.safetensors");
  EXPECT_EQ(Layer({"get", "mine", "--output", output}).exit_code, 0);
  const auto tensors = ReadTensors(output);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("w").At(0), 3.0);
  EXPECT_EQ(tensors->at("v").At(0), 5.0);
  EXPECT_EQ(Layer({"delete", "mine"}).exit_code, 0);
  EXPECT_EQ(Layer({"get", "mine"}).exit_code, 3);
}

TEST_F(LayerCommandTest, AFileWithoutANameForItsTensorIsAUsageError) {
  const ProgramResult result = Layer({"put", "mine", NumberFile("v.npy", 1)});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("NAME=FILE.npy"));
}

}  // namespace
}  // namespace attn
