// How often a payload is copied in user space: at most once where it is
// received, never where it is sent. Counted, not timed: copies of 4 KiB and
// more that go through libc. Metadata is far below that, and so are the tiles
// that kernels move into their scratch, which is computing: see BigCall.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/integration/memory/big_call.h"
#include "tests/integration/memory/copy_counts.h"
#include "tests/integration/memory/server_process.h"

namespace attn {
namespace {

// gRPC gives messages in slices of any length: those below 4 KiB are not
// counted. None is the other way round: so much may be counted beside payloads.
constexpr double kUncounted = 0.1;
constexpr uint64_t kSlack = 64 << 10;

// The counts of another process, in a file.
class SharedCounts {
 public:
  explicit SharedCounts(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(CopyCounts)), 0);
    void* const mapped = mmap(nullptr, sizeof(CopyCounts),
                              PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    close(file);
    counts_ = static_cast<CopyCounts*>(mapped);
  }
  ~SharedCounts() { munmap(counts_, sizeof(CopyCounts)); }
  SharedCounts(const SharedCounts&) = delete;
  SharedCounts& operator=(const SharedCounts&) = delete;

  uint64_t bytes() const { return counts_->bytes.load(); }

 private:
  CopyCounts* counts_;
};

class CopiesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#ifdef ATTN_SANITIZED
    GTEST_SKIP() << "sanitizers have copying functions of their own";
#endif
    counts_ = std::make_unique<SharedCounts>(folder_.File("counts"));
    Serve({});
  }

  // Instead of the server that there is.
  void Serve(std::vector<std::string> flags) {
    server_ = nullptr;
    flags.push_back("--grpc-address=" + (GetParam() == "unix"
                                             ? "unix:" + folder_.File("socket")
                                             : std::string("127.0.0.1:0")));
    server_ = std::make_unique<ServerProcess>(
        flags,
        std::vector<std::string>{
            std::string("LD_PRELOAD=") + COPY_COUNTER,
            std::string(kCopyCountsVariable) + "=" + folder_.File("counts")});
  }

  const std::string& address() const { return server_->address(); }
  uint64_t ServerCopies() const { return counts_->bytes(); }

  const ScratchFolder folder_;
  std::unique_ptr<SharedCounts> counts_;
  std::unique_ptr<ServerProcess> server_;
};

// `copied` is one copy of `payload`.
void ExpectOneCopy(uint64_t copied, int64_t payload) {
  EXPECT_LE(copied, static_cast<uint64_t>(payload) + kSlack);
  EXPECT_GE(static_cast<double>(copied),
            (1 - kUncounted) * static_cast<double>(payload))
      << "the counter does not see the copy that there must be";
}

TEST_P(CopiesTest, TheServerCopiesWhatItReceivesOnceAndWhatItSendsNever) {
  auto client = AttentionClient::Connect({.address = address()});
  ASSERT_TRUE(client.ok());
  for (const int64_t mebibytes : {1, 4, 16}) {
    const BigCall call(mebibytes);
    const uint64_t before = ServerCopies();
    const auto result = client->Attend(call.Message());
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectOneCopy(ServerCopies() - before, call.sent_bytes());
  }
}

TEST_P(CopiesTest, TheClientCopiesWhatItReceivesOnceAndWhatItSendsNever) {
  auto client = AttentionClient::Connect({.address = address()});
  ASSERT_TRUE(client.ok());
  for (const int64_t mebibytes : {1, 4, 16}) {
    const BigCall call(mebibytes);
    const AttendMessage message = call.Message();
    const uint64_t before = AttnCopyCounts()->bytes.load();
    const auto result = client->Attend(message);
    const uint64_t copied = AttnCopyCounts()->bytes.load() - before;
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectOneCopy(copied, call.tensor_bytes());
  }
}

// In chunks: the calls are larger than the server's messages.
TEST_P(CopiesTest, AStreamCostsNoMoreCopiesThanACall) {
  Serve({"--max-message-bytes=" + std::to_string(4 * kMebibyte)});
  auto client = AttentionClient::Connect({.address = address()});
  ASSERT_TRUE(client.ok());
  auto stream = client->OpenStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (const int64_t mebibytes : {4, 16}) {
    const BigCall call(mebibytes);
    const AttendMessage message = call.Message();
    const uint64_t server_before = ServerCopies();
    const uint64_t before = AttnCopyCounts()->bytes.load();
    const auto result = (*stream)->Attend(message);
    const uint64_t copied = AttnCopyCounts()->bytes.load() - before;
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectOneCopy(copied, call.tensor_bytes());
    ExpectOneCopy(ServerCopies() - server_before, call.sent_bytes());
  }
}

TEST_P(CopiesTest, AStubOfAnyLanguageCostsTheServerNoMore) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  auto stub = v1::AttentionService::NewStub(grpc::CreateCustomChannel(
      address(), grpc::InsecureChannelCredentials(), arguments));
  for (const int64_t mebibytes : {1, 16}) {
    const BigCall call(mebibytes);
    const v1::AttendRequest request = call.Request();
    const uint64_t before = ServerCopies();
    grpc::ClientContext context;
    v1::AttendResponse response;
    const grpc::Status status = stub->Attend(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(static_cast<int64_t>(response.output().data().size()),
              call.tensor_bytes());
    ExpectOneCopy(ServerCopies() - before, call.sent_bytes());
  }
}

inference::ModelInferRequest InferRequestOf(const v1::AttendRequest& attend,
                                            bool raw) {
  inference::ModelInferRequest request;
  request.set_model_name("attention");
  const auto add = [&](const char* name, const v1::Tensor& tensor) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype("FP32");
    *input.mutable_shape() = tensor.shape();
    if (raw) {
      request.add_raw_input_contents(tensor.data());
      return;
    }
    auto& floats = *input.mutable_contents()->mutable_fp32_contents();
    floats.Resize(static_cast<int>(tensor.data().size() / sizeof(float)), 0);
    std::memcpy(floats.mutable_data(), tensor.data().data(),
                tensor.data().size());
  };
  add("q", attend.q());
  add("k", attend.k());
  add("v", attend.v());
  return request;
}

// Raw contents, or packed floats, which lie on the wire as in memory.
TEST_P(CopiesTest, TheOpenInferenceProtocolCostsTheServerNoMore) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  auto stub =
      inference::GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
          address(), grpc::InsecureChannelCredentials(), arguments));
  for (const bool raw : {true, false}) {
    const BigCall call(16);
    const inference::ModelInferRequest request =
        InferRequestOf(call.Request(), raw);
    const uint64_t before = ServerCopies();
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    const grpc::Status status = stub->ModelInfer(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(static_cast<int64_t>(response.raw_output_contents(0).size()),
              call.tensor_bytes());
    ExpectOneCopy(ServerCopies() - before, call.sent_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Over, CopiesTest, ::testing::Values("tcp", "unix"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace attn
