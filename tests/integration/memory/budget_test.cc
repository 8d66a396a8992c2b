// The memory of a server is bounded whatever its clients send.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/codec/status_codec.h"
#include "tests/integration/memory/big_call.h"
#include "tests/integration/memory/server_process.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGibibyte = int64_t{1} << 30;

// A message of `size` zeros that takes 16 MiB of memory.
grpc::ByteBuffer Zeros(int64_t size) {
  static const std::string block(16 * kMebibyte, '\0');
  std::vector<grpc::Slice> slices;
  for (int64_t left = size; left > 0;) {
    const int64_t part = std::min<int64_t>(left, 16 * kMebibyte);
    slices.emplace_back(block.data(), static_cast<size_t>(part),
                        grpc::Slice::STATIC_SLICE);
    left -= part;
  }
  return {slices.data(), slices.size()};
}

// What an Attend of those bytes is answered with by a client that checks
// nothing.
grpc::Status SendZeros(const std::string& address, int64_t size) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  const grpc::ByteBuffer request = Zeros(size);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(
      &context, kAttendMethod, grpc::StubOptions(), &request, &response,
      [&done](const grpc::Status& status) { done.set_value(status); });
  return done.get_future().get();
}

class BudgetTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // While it lives gRPC does not shut down between two tests, which can take
    // ten seconds.
    static const auto kept =
        grpc::CreateChannel("unix:/", grpc::InsecureChannelCredentials());
  }
  void SetUp() override {
#ifdef ATTN_SANITIZED
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
};

// What a server holds beside payloads: itself, scratch, threads' stacks.
constexpr int64_t kMargin = 64 * kMebibyte;
// gRPC reads on for a moment before it acts on its quota.
constexpr int64_t kLateness = 256 * kMebibyte;

// Whether a refusal is ours: with a reason and the time for a retry.
void ExpectTyped(const absl::Status& refused) {
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--max-inflight-bytes="));
  EXPECT_TRUE(RetryDelayOf(refused).has_value()) << refused;
}

TEST_F(BudgetTest, CallsBeyondTheByteBudgetAreRefusedAndMemoryStaysBelowIt) {
  constexpr int64_t kInflight = 100 * kMebibyte;
  // Room for all that eight callers send: gRPC need not end any call.
  constexpr int64_t kTransport = 512 * kMebibyte;
  constexpr int kCallers = 8;
  constexpr int kTurns = 6;
  const ServerProcess server(
      {"--max-message-bytes=" + std::to_string(64 * kMebibyte),
       "--max-inflight-bytes=" + std::to_string(kInflight),
       "--max-transport-bytes=" + std::to_string(kTransport)});
  const int64_t start = server.ResidentBytes();
  const BigCall call(16);
  std::atomic<int> served = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      auto client = AttentionClient::Connect({.address = server.address()});
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto result = client->Attend(call.Message());
        if (!result.ok()) ExpectTyped(result.status());
        ++(result.ok() ? served : refused);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(served, 0);
  EXPECT_GT(refused, 0) << "no call was one too many: the test shows nothing";
  EXPECT_LE(server.PeakResidentBytes(),
            start + kInflight + kTransport + kMargin);
}

TEST_F(BudgetTest, AMessageOfAGibibyteTakesNoMoreThanTheTransportMay) {
  constexpr int64_t kTransport = 64 * kMebibyte;
  static_assert(kTransport + kLateness + kMargin < kGibibyte / 2);
  const ServerProcess server(
      {"--max-message-bytes=" + std::to_string(16 * kMebibyte),
       "--max-inflight-bytes=" + std::to_string(64 * kMebibyte)});
  const int64_t start = server.ResidentBytes();
  std::atomic<bool> over = false;
  std::thread other([&server, &over] {
    auto client = AttentionClient::Connect({.address = server.address()});
    const BigCall call(1);
    do {
      // While memory is short gRPC closes idle connections and ends calls,
      // whosever they are. Who tries again is served.
      absl::Status status;
      do {
        status = client->Attend(call.Message()).status();
      } while (status.code() == absl::StatusCode::kUnavailable ||
               status.code() == absl::StatusCode::kResourceExhausted);
      EXPECT_TRUE(status.ok()) << status;
    } while (!over);
  });
  const grpc::Status status = SendZeros(server.address(), kGibibyte);
  over = true;
  other.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
  EXPECT_LE(server.PeakResidentBytes(),
            start + kTransport + kLateness + kMargin);
}

TEST_F(BudgetTest, AMessageThatIsTooLongIsToldBothNumbersAndTheFlag) {
  const ServerProcess server(
      {"--max-message-bytes=" + std::to_string(16 * kMebibyte)});
  const grpc::Status status = SendZeros(server.address(), 17 * kMebibyte);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("a request of 17825792 bytes is larger than "
                        "--max-message-bytes=16777216"));
}

TEST_F(BudgetTest, AMessageOfTwoGibibytesIsRefusedByTheServer) {
  constexpr int64_t kTransport = 512 * kMebibyte;
  const ServerProcess server(
      {"--max-transport-bytes=" + std::to_string(kTransport)});
  const int64_t start = server.ResidentBytes();
  for (const int64_t size : {2 * kGibibyte - 1, 2 * kGibibyte}) {
    const grpc::Status status = SendZeros(server.address(), size);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << status.error_message();
  }
  auto client = AttentionClient::Connect({.address = server.address()});
  EXPECT_TRUE(client->Attend(BigCall(1).Message()).ok());
  EXPECT_LE(server.PeakResidentBytes(),
            start + kTransport + kLateness + kMargin);
}

// The bytes of the output of `message`, which a unary call may be too small
// for.
std::string OutputOf(const ServerProcess& server,
                     const AttendMessage& message) {
  auto client = AttentionClient::Connect({.address = server.address()});
  const auto result = client->Attend(message);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return "";
  const ResponseTensor* const output =
      result->Find(v1::AttendResponse::kOutputFieldNumber);
  EXPECT_NE(output, nullptr);
  if (output == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(output->data.data()),
                     output->data.size());
}

TEST_F(BudgetTest, ACallThatIsLargerThanAMessageGivesTheSameBits) {
  const BigCall call(16);
  const ServerProcess narrow(
      {"--max-message-bytes=" + std::to_string(8 * kMebibyte)});
  const grpc::Status unary = SendZeros(narrow.address(), call.sent_bytes());
  ASSERT_EQ(unary.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const std::string output = OutputOf(narrow, call.Message());
  EXPECT_EQ(static_cast<int64_t>(output.size()), call.tensor_bytes());
  EXPECT_TRUE(output == OutputOf(ServerProcess(), call.Message()));
}

TEST_F(BudgetTest, ACallOf64MebibytesNeedsNoFlag) {
  const ServerProcess server;
  auto client = AttentionClient::Connect({.address = server.address()});
  const BigCall call(64);
  const auto result = client->Attend(call.Message());
  ASSERT_TRUE(result.ok()) << result.status();
  const ResponseTensor* const output =
      result->Find(v1::AttendResponse::kOutputFieldNumber);
  ASSERT_NE(output, nullptr);
  EXPECT_EQ(static_cast<int64_t>(output->data.size()), call.tensor_bytes());
}

}  // namespace
}  // namespace attn
